//! What operators learn about the store.

use tidegate_testkit::{Redis, wait_until};

use crate::server::{FILE, SOON, Server, scratch, serve};

#[test]
fn a_full_redis_is_called_full_for_as_long_as_it_is() {
    let redis = Redis::start();
    let config = scratch("full.yaml", FILE);
    let server = Server::start(&mut serve(&redis.url(), &config));
    let page = |path: &str| server.send(&server.http, &format!("GET {path} HTTP/1.1"), "").1;
    let is_asked = || {
        server.check("alice");
        page("/metrics").contains(r#"source="store"} 1"#)
    };
    wait_until("the store", SOON, is_asked);
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).or_panic();
    let count = |kind: &str| {
        let (page, name) = (page("/metrics"), format!("errors_total{{kind=\"{kind}\"}} "));
        let count = page.split_once(&name).and_then(|(_, rest)| rest.lines().next()?.parse().ok());
        count.unwrap_or(0)
    };
    // Far more than it takes to open the breaker, over more than the time between two probes.
    let before = count("unreachable");
    wait_until("many errors", SOON, || {
        server.check("bob");
        count("full") > 200
    });
    assert_eq!(count("unreachable"), before);
    assert!(page("/readyz").contains("deciding without the store: store full: "));
    assert!(page("/metrics").contains("\ntidegate_store_breaker_open 1\n"));
    wait_until("a line", SOON, || server.log().contains("store full: "));
    std::fs::remove_file(config).unwrap();
}

#[test]
fn a_redis_that_is_told_to_drop_counters_while_it_runs_is_noticed() {
    let redis = Redis::builder().arg("maxmemory", "100mb").start();
    let config = scratch("evicting.yaml", FILE);
    let server = Server::start(&mut serve(&redis.url(), &config));
    let says = |line: &str| {
        let page = server.send(&server.http, "GET /metrics HTTP/1.1", "").1;
        page.contains(&format!("\ntidegate_store_may_evict {line}\n"))
    };
    wait_until("the setting", SOON, || says("0"));
    assert!(!server.log().contains("maxmemory-policy"));
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).or_panic();
    wait_until("the change in metrics", SOON, || says("1"));
    wait_until("a line", 4 * SOON, || server.log().contains("expected noeviction"));
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).or_panic();
    wait_until("another line", 4 * SOON, || server.log().contains("no longer drops counters"));
    assert_eq!(server.log().matches("expected noeviction").count(), 1);
    std::fs::remove_file(config).unwrap();
}
