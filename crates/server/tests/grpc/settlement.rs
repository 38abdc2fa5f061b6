//! Several descriptors: all are charged or none, unless each is charged on its own.

use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_server::ListenerConfig;
use tidegate_server::grpc::GrpcOptions;
use tidegate_wire::envoy::{Code, RateLimitDescriptor};

use super::support::{Server, brief, entry, header, hits, refund, request, soon};

const FILE: &str = "
domain: edge
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - { key: path, rate_limit: { unit: minute, requests_per_unit: 2 } }
";

fn user() -> RateLimitDescriptor {
    entry("user", "alice")
}

fn path() -> RateLimitDescriptor {
    entry("path", "/login")
}

async fn each() -> Server {
    Server::with_options(FILE, GrpcOptions { charge_each: true }).await
}

#[tokio::test]
async fn nobody_pays_for_what_another_descriptor_refused() {
    let server = Server::start(FILE).await;
    let both = request([user(), path()]);
    assert_eq!(brief(&server.ask(&both).await), (true, vec![(true, 9), (true, 1)]));
    assert_eq!(brief(&server.ask(&both).await), (true, vec![(true, 8), (true, 0)]));
    for _ in 0..3 {
        let response = server.ask(&both).await;
        assert_eq!(brief(&response), (false, vec![(true, 8), (false, 0)]));
        assert_eq!(header(&response, "ratelimit"), Some(r#""edge.path";r=0;t=60"#));
    }
}

const TIERS: &str = "
defaults: { store_deadline: 2s }
policies:
  - name: tiers
    key: [user]
    algorithm: fixed-window
    limits: [3/day]
    tiers: [{ when: { plan: pro }, limits: [100/day] }]
";

/// Two descriptors of one caller under different tiers: one counter, and both limits apply.
async fn both_tiers(server: &Server, user: &str) {
    let small = || RateLimitDescriptor::new([("user", user)]);
    let large = || RateLimitDescriptor::new([("user", user), ("plan", "pro")]);
    let both = request([small(), large()]);
    assert_eq!(brief(&server.ask(&both).await), (true, vec![(true, 2), (true, 98)]));
    let other = request([large(), small()]);
    assert_eq!(brief(&server.ask(&both).await), (true, vec![(true, 0), (true, 96)]));
    for _ in 0..20 {
        assert!(!brief(&server.ask(&both).await).0);
        assert!(!brief(&server.ask(&other).await).0);
    }
    assert_eq!(brief(&server.ask(&request([large()])).await), (true, vec![(true, 95)]));
}

#[tokio::test]
async fn descriptors_under_different_tiers_share_a_counter_and_keep_their_limits() {
    both_tiers(&Server::start(TIERS).await, "alice").await;
    let redis = tidegate_testkit::Redis::start();
    let config: tidegate::RedisConfig = redis.url().parse().unwrap();
    let store = tidegate::RedisStore::builder(config).build();
    both_tiers(&Server::on(store, TIERS, ListenerConfig::default()).await, "alice").await;
}

#[tokio::test]
async fn each_pays_for_itself_when_told_so() {
    let server = each().await;
    let both = request([user(), path()]);
    for left in [(9, 1), (8, 0)] {
        assert_eq!(brief(&server.ask(&both).await), (true, vec![(true, left.0), (true, left.1)]));
    }
    for left in [7, 6, 5] {
        let response = server.ask(&both).await;
        assert_eq!(brief(&response), (false, vec![(true, left), (false, 0)]));
        assert_eq!(header(&response, "retry-after"), Some("60"));
        assert_eq!(header(&response, "ratelimit-policy"), Some(r#""edge.path";q=2;w=60"#));
    }
}

#[tokio::test]
async fn a_charge_after_the_fact_takes_what_is_left() {
    // Like a gateway for language models: peek first, pay for the tokens afterwards.
    let server = each().await;
    let (look, pay) = (|| request([hits(user(), 0)]), |tokens| request([hits(user(), tokens)]));
    assert_eq!(brief(&server.ask(&look()).await), (true, vec![(true, 10)]));
    assert_eq!(brief(&server.ask(&pay(7)).await).1, [(true, 3)]);
    assert_eq!(brief(&server.ask(&look()).await), (true, vec![(true, 3)]));
    assert_eq!(brief(&server.ask(&pay(8)).await), (false, vec![(false, 0)]));
    assert_eq!(brief(&server.ask(&look()).await), (false, vec![(false, 0)]));
    // Even if it is more than there ever is.
    assert_eq!(
        brief(&server.ask(&request([hits(entry("user", "bob"), 99)])).await).1,
        [(false, 0)]
    );

    let server = Server::start(FILE).await;
    assert_eq!(brief(&server.ask(&pay(7)).await).1, [(true, 3)]);
    assert_eq!(brief(&server.ask(&pay(8)).await), (false, vec![(false, 3)]));
}

#[tokio::test]
async fn the_same_descriptor_twice_is_judged_by_the_sum() {
    for server in [Server::start(FILE).await, each().await] {
        let twice = request([path(), path()]);
        let response = server.ask(&twice).await;
        assert_eq!(response.overall_code(), Code::Ok);
        assert_eq!(server.ask(&request([path()])).await.overall_code(), Code::OverLimit);
    }
    let server = Server::start(FILE).await;
    assert_eq!(
        server.ask(&request([path(), path(), path()])).await.overall_code(),
        Code::OverLimit
    );
    assert_eq!(brief(&server.ask(&request([hits(path(), 0)])).await).1, [(true, 2)]);
}

#[tokio::test]
async fn a_look_that_fails_keeps_others_from_paying_and_getting_back() {
    let server = Server::start(FILE).await;
    server.ask(&request([hits(path(), 2), hits(user(), 5)])).await;
    let mixed = request([hits(path(), 0), user(), refund(entry("user", "alice"), 5)]);
    let response = server.ask(&mixed).await;
    assert_eq!(brief(&response), (false, vec![(false, 0), (true, 5), (true, 5)]));
    assert_eq!(header(&response, "retry-after"), Some("60"));
    // With something left to see, both happen.
    server.ask(&request([refund(path(), 1)])).await;
    let response = server.ask(&mixed).await;
    assert_eq!(brief(&response), (true, vec![(true, 1), (true, 4), (true, 9)]));
}

#[tokio::test]
async fn streams_that_come_at_once_do_not_pass_a_limit_together() {
    let server = Server::start(FILE).await;
    let client = server.connect().await;
    let passed = AtomicU32::new(0);
    let one = request([user()]);
    let asking = (0..60).map(|_| async {
        if client.ask(&one).await.overall_code() == Code::Ok {
            passed.fetch_add(1, Ordering::Relaxed);
        }
    });
    // All heads are sent before the first answer is read.
    soon(all(asking.collect())).await;
    assert_eq!(passed.load(Ordering::Relaxed), 10);
}

/// Polls all of them until each is done.
async fn all<F: Future<Output = ()>>(futures: Vec<F>) {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        futures.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn more_limits_than_can_be_settled_deny() {
    let limits: Vec<_> = (0..20)
        .map(|n| format!("{{ name: p{n}, match: {{ a: b }}, key: [a], limits: [5/minute] }}"))
        .collect();
    let server = Server::start(&format!("policies: [{}]", limits.join(", "))).await;
    assert_eq!(server.ask(&request([entry("a", "b")])).await.overall_code(), Code::Ok);
    let twice = request([entry("a", "b"), entry("a", "b")]);
    assert_eq!(server.ask(&twice).await.overall_code(), Code::OverLimit);
}
