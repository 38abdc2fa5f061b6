//! A primary that changes, behind Sentinels.

use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tidegate_testkit::{FakeRedis, Redis, Replicated, wait_until};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_primary_is_found_and_found_again() {
    let group = Replicated::builder().password("pw").start();
    let link = link(&group.sentinel_url());
    assert_eq!(count(&link, "k").await.unwrap(), 1);
    assert_eq!(group.primary().command(&["GET", "k"]).text(), "1");
    group.failover();
    assert!(group.are_agreed_on(group.replica()));
    count_soon(&link, "after", Duration::from_secs(3)).await;
    assert_eq!(group.replica().command(&["GET", "after"]).text(), "1");
    // And when it vanishes silently.
    group.replica().kill();
    sleep(Duration::from_millis(200)).await;
    count_soon(&link, "later", PATIENCE).await;
    // One Sentinel knew, and announces it to the others.
    wait_until("all to agree", PATIENCE, || group.are_agreed_on(group.primary()));
    assert_eq!(group.primary().command(&["GET", "later"]).text(), "1");
}

/// Counts until it works, whatever happens to connections meanwhile, and checks which server counted.
async fn assert_counted_at(server: &Redis, link: &RedisLink, key: &str) {
    let start = Instant::now();
    while let Err(failure) = count(link, key).await {
        assert!(start.elapsed() < PATIENCE, "still {failure}");
        sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(server.command(&["EXISTS", key]).integer(), 1);
}

/// How many connections a server has from us.
fn connections(server: &Redis) -> usize {
    // Sentinels close all connections to a server whose role they change.
    let Ok(clients) = server.try_command(&["CLIENT", "LIST"]) else { return 0 };
    clients.text().lines().filter(|client| client.contains(" name=tidegate ")).count()
}

/// All servers are well, so no failure suggests another primary, and the old one still accepts writes
/// that will be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_on_demand_is_followed_before_the_old_primary_is_told() {
    let group = Replicated::start();
    let link = link(&group.sentinel_url());
    for lane in 0..2 {
        count_on(&link, "k", lane).await.unwrap();
    }
    tokio::task::block_in_place(|| fail_over_in_silence(&group));
    let start = Instant::now();
    let moved = || connections(group.replica()) == 2 && connections(group.primary()) == 0;
    wait_until("all connections to move", PATIENCE, moved);
    println!("moved in {:?}", start.elapsed());
    assert_eq!(group.primary().role().as_deref(), Some("master"), "nobody told it");
    assert_counted_at(group.replica(), &link, "after").await;
}

/// Promotes the replica. The old primary is not told: Sentinels leave one that they have replaced
/// alone for four of these periods.
fn fail_over_in_silence(group: &Replicated) {
    for sentinel in group.sentinels() {
        sentinel.command(&["SENTINEL", "DEBUG", "PUBLISH-PERIOD", "60000"]).or_panic();
    }
    group.request_failover();
}

/// The Sentinels cannot reach the primary and we can: it refuses us nothing, or only for lack of
/// replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_only_we_can_reach_is_left() {
    for replicas in ["0", "1"] {
        let group = Replicated::builder().password("pw").start();
        let link = link(&group.sentinel_url());
        assert_eq!(count(&link, "k").await.unwrap(), 1);
        for (name, value) in [("min-replicas-max-lag", "1"), ("min-replicas-to-write", replicas)] {
            group.primary().command(&["CONFIG", "SET", name, value]).or_panic();
        }
        tokio::task::block_in_place(|| shut_out(group.primary()));
        let agreed = || group.are_agreed_on(group.replica());
        wait_until("the replica to be promoted", PATIENCE, agreed);
        wait_until("us to follow", PATIENCE, || connections(group.replica()) > 0);
        assert_counted_at(group.replica(), &link, "after").await;
    }
}

/// Keeps out all but our existing connections: nobody else knows the password.
fn shut_out(server: &Redis) {
    let mut connection = server.connect().unwrap();
    connection.call(&["CONFIG", "SET", "requirepass", "another"]).unwrap().or_panic();
    let clients = connection.call(&["CLIENT", "LIST"]).unwrap().text();
    let others =
        clients.lines().filter(|one| one.contains("name=sentinel") || one.contains("flags=S"));
    for client in others {
        let id = client.split_whitespace().find_map(|word| word.strip_prefix("id=")).unwrap();
        connection.call(&["CLIENT", "KILL", "ID", id]).unwrap().or_panic();
    }
}

/// One Sentinel was cut off from the others before the failover, and still reports the old primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_with_an_old_view_is_ignored() {
    let group = Replicated::builder().start();
    let stale = FakeRedis::start({
        let port = group.primary().port().to_string();
        move |command| {
            let is = |at: usize, word: &[u8]| {
                command.get(at).is_some_and(|it| it.eq_ignore_ascii_case(word))
            };
            let answer = match is(0, b"SENTINEL") {
                true if is(1, b"MASTER") => "*2\r\n$12\r\nconfig-epoch\r\n$1\r\n0\r\n".to_owned(),
                true if is(1, b"GET-MASTER-ADDR-BY-NAME") => {
                    format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len())
                }
                true => "*0\r\n".to_owned(),
                false => return None,
            };
            Some(answer.into_bytes())
        }
    });
    let hosts: Vec<_> = group.sentinels().iter().map(|one| one.address().to_string()).collect();
    let url = format!("redis+sentinel://{},{}/mymaster", stale.address(), hosts.join(","));
    let link = link(&url);
    count_soon(&link, "k", PATIENCE).await;
    tokio::task::block_in_place(|| group.failover());
    wait_until("us to follow", PATIENCE, || connections(group.replica()) > 0);
    // The old primary reports that role again, and must not be used.
    for sentinel in group.sentinels() {
        sentinel.pause();
    }
    group.primary().command(&["REPLICAOF", "NO", "ONE"]).or_panic();
    for sentinel in group.sentinels() {
        sentinel.resume();
    }
    let mut connection = group.replica().connect().unwrap();
    connection.call(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap().or_panic();
    assert_counted_at(group.replica(), &link, "after").await;
}

/// Stores share Sentinels, as the workers of a server do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_lead_to_one_place_share_its_sentinels() {
    let group = Replicated::start();
    // Sentinels know each other by another address.
    let config = config(&group.sentinel_url().replace("127.0.0.1", "localhost"));
    let to = LinkDestination::of(&config);
    let links: Vec<_> = (0..8).map(|_| RedisLink::new(config.clone(), to.clone())).collect();
    for link in &links {
        count(link, "k").await.unwrap();
    }
    let all_heard = || group.sentinels().iter().all(|one| connections(one) == 2);
    wait_until("every Sentinel to be followed once", PATIENCE, all_heard);
    drop(links);
    drop(to);
    let gone = || group.sentinels().iter().all(|one| connections(one) == 0);
    wait_until("nobody to be followed any more", PATIENCE, gone);
}

/// Callers that come after a runtime has ended notice changes too.
#[test]
fn sentinels_are_followed_on_another_runtime_when_one_has_ended() {
    let group = Replicated::start();
    let config = config(&group.sentinel_url());
    let to = LinkDestination::of(&config);
    let links = [(); 2].map(|()| RedisLink::new(config.clone(), to.clone()));
    let runtimes = [(); 2].map(|()| tokio::runtime::Runtime::new().unwrap());
    for (runtime, link) in runtimes.iter().zip(&links) {
        runtime.block_on(count(link, "k")).unwrap();
    }
    let [first, _second] = runtimes;
    drop(first);
    fail_over_in_silence(&group);
    wait_until("the other to follow", PATIENCE, || connections(group.replica()) > 0);
}

#[tokio::test]
async fn one_sentinel_that_answers_is_enough() {
    let group = Replicated::start();
    let alive = group.sentinels()[2].address();
    let first = link(&format!("redis+sentinel://127.0.0.1:1,{alive}/mymaster"));
    assert_eq!(count(&first, "k").await.unwrap(), 1);
    // The others were learned from it.
    group.sentinels()[2].kill();
    let mut connection = group.primary().connect().unwrap();
    connection.call(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap().or_panic();
    sleep(Duration::from_millis(100)).await;
    assert_eq!(count_soon(&first, "k", Duration::from_secs(3)).await, 2);
}

#[tokio::test]
async fn a_service_that_nobody_knows_is_a_misconfiguration() {
    let group = Replicated::start();
    let unknown = link(&group.sentinel_url().replace("mymaster", "other"));
    let result = count(&unknown, "k").await;
    let failure = assert_failed(result, StoreErrorKind::Misconfigured, CallOutcome::NotRun);
    assert!(failure.message.contains("\"other\""), "{failure}");
    let nowhere = link("redis+sentinel://127.0.0.1:1/mymaster");
    assert_failed(count(&nowhere, "k").await, StoreErrorKind::Unreachable, CallOutcome::NotRun);
}
