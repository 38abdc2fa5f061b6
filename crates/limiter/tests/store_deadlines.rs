//! Policies with their own deadlines, and a Redis that does not answer.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::time::Duration;

use tidegate::config::PolicySource as Text;
use tidegate::{ChargeIntent, Cost, DecisionSource, PlanLimiter, RedisConfig, RedisStore};
use tidegate_testkit::{Mode, Proxy, Redis};

const POLICIES: &str = "
policies:
  - { name: hasty, match: { path: /a }, key: [user], limits: [1000/day] }
  - { name: patient, match: { path: /b }, key: [user], limits: [1000/day], store_deadline: 10s }
";
const HASTY: [(&str, &str); 2] = [("path", "/a"), ("user", "eve")];

/// A limiter whose Redis answered first and has stopped answering.
async fn cut_off(redis: &Redis) -> (PlanLimiter<RedisStore>, Proxy) {
    let proxy = Proxy::start(redis.address());
    let config: RedisConfig = proxy.url().parse().unwrap();
    let text = Text::new("limits.yaml", POLICIES).unwrap();
    let limiter = PlanLimiter::load(&text, RedisStore::builder(config).build()).unwrap();
    while limiter.check(&HASTY, Cost::PEEK).await.source() != DecisionSource::Store {
        tokio::task::yield_now().await;
    }
    proxy.set_mode(Mode::Blackhole);
    (limiter, proxy)
}

#[tokio::test]
async fn the_shortest_deadline_opens_the_breaker() {
    let redis = Redis::start();
    let (limiter, _proxy) = cut_off(&redis).await;
    for _ in 0..10 {
        assert_eq!(limiter.check(&HASTY, Cost::ONE).await.source(), DecisionSource::Fallback);
    }
    assert!(!limiter.store().is_available());
}

#[tokio::test]
async fn limits_of_no_policy_wait_no_longer_than_the_default() {
    let redis = Redis::start();
    let (limiter, _proxy) = cut_off(&redis).await;
    let limit = limiter.plan().ad_hoc("mails", "1/minute burst 1".parse().unwrap(), "eve");
    let charges = limit.request_charges(Cost::ONE);
    let asked = limiter.decide(&charges, ChargeIntent::Take);
    let decision = tokio::time::timeout(Duration::from_secs(5), asked).await.unwrap();
    assert_eq!(decision.source(), DecisionSource::Fallback);
}
