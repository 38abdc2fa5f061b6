//! Limits of one request whose counters are on different nodes: they are settled one after the other.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::sync::Arc;
use std::time::Duration;

use tidegate::config::PolicySource as Text;
use tidegate::{
    Charge, Cost, Decision, DecisionSource, LocalStore, ManualClock, MemoryStore, PlanLimiter,
    Promise, RedisConfig, RedisStore, SettleResult, Span, Store, StoreError, StoreProfile,
    Timestamp, Verdicts,
};
use tidegate_testkit::{Mode, Proxy, Redis};

const EVE: (&str, &str) = ("user", "eve");
const HERE: (&str, &str) = ("ip", "192.0.2.1");

fn limiter(policies: &str, url: &str) -> PlanLimiter<RedisStore> {
    let config: RedisConfig = url.parse().unwrap();
    let store = RedisStore::builder(config.connect_timeout(Duration::from_secs(2))).build();
    by(policies, store)
}

fn by<S: Store>(policies: &str, store: S) -> PlanLimiter<S> {
    let text = format!("defaults: {{ store_deadline: 2s }}\npolicies:\n{policies}");
    PlanLimiter::load(&Text::new("limits.yaml", text).unwrap(), store).unwrap()
}

async fn left<S: Store>(limiter: &PlanLimiter<S>) -> Vec<u64> {
    let looked = limiter.check(&[EVE], Cost::PEEK).await;
    assert_eq!(looked.source(), DecisionSource::Store);
    looked.verdicts().iter().map(|verdict| verdict.remaining).collect()
}

async fn denied<S: Store>(limiter: &PlanLimiter<S>) -> Decision {
    let decision = limiter.check(&[EVE, HERE], Cost::ONE).await;
    assert!(!decision.is_allowed());
    decision
}

/// A limit of one request, on its own node.
const ONE_FROM_HERE: &str = "
  - { name: ips, key: [ip], limits: [1/day], algorithm: fixed-window,
      key_format: 'ips:{entity}:{window_index}' }";

#[tokio::test]
async fn a_decision_does_not_wait_for_refunds() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let limits: Vec<_> = (1..=24).map(|hours| format!("1000/{hours}h")).collect();
    let users = format!("  - {{ name: users, key: [user], limits: [{}] }}", limits.join(", "));
    let limiter = limiter(&format!("{users}{ONE_FROM_HERE}"), &proxy.url());
    assert!(limiter.check(&[HERE], Cost::ONE).await.is_allowed());
    let before = left(&limiter).await;
    // Two of these are within the deadline, and twenty-six are not.
    proxy.set_mode(Mode::Delay(Duration::from_millis(100)));
    assert_eq!(denied(&limiter).await.source(), DecisionSource::Store);
    proxy.set_mode(Mode::Forward);
    assert_eq!(left(&limiter).await, before);
}

#[tokio::test]
async fn what_a_shadow_limit_did_not_take_is_not_given_back() {
    let redis = Redis::start();
    let watched = "  - { name: watched, key: [user], limits: [5/hour, 100/day], mode: shadow, \
                   algorithm: fixed-window }";
    let limiter = limiter(&format!("{watched}{ONE_FROM_HERE}"), &redis.url());
    for _ in 0..6 {
        assert!(limiter.check(&[EVE], Cost::ONE).await.is_allowed());
    }
    assert!(limiter.check(&[HERE], Cost::ONE).await.is_allowed());
    let before = left(&limiter).await;
    let _ = denied(&limiter).await;
    assert_eq!(left(&limiter).await, before);
}

#[tokio::test]
async fn denied_requests_count_where_that_was_asked_for() {
    let counting = "
  - { name: counting, key: [user], limits: [5/day], algorithm: fixed-window, count_denied: true }";
    for policies in [format!("{counting}{ONE_FROM_HERE}"), format!("{ONE_FROM_HERE}{counting}")] {
        let redis = Redis::start();
        let limiter = limiter(&policies, &redis.url());
        assert!(limiter.check(&[HERE], Cost::ONE).await.is_allowed());
        let _ = denied(&limiter).await;
        assert_eq!(left(&limiter).await, [4]);
    }
}

#[tokio::test]
async fn denials_of_all_nodes_are_reported() {
    let redis = Redis::start();
    let users = "
  - { name: users, key: [user], limits: [2/hour], algorithm: fixed-window }";
    let free = "
  - { name: free, key: [user], limits: [9/7d], algorithm: fixed-window }";
    let limiter = limiter(&format!("{users}{ONE_FROM_HERE}{free}"), &redis.url());
    let two = Cost::new(2).unwrap();
    assert!(limiter.check(&[EVE], two).await.is_allowed());
    assert!(limiter.check(&[HERE], Cost::ONE).await.is_allowed());
    let decision = denied(&limiter).await;
    let told: Vec<_> =
        decision.verdicts().iter().map(|verdict| (verdict.allowed, verdict.remaining)).collect();
    assert_eq!(told, [(false, 0), (false, 0), (true, 7)]);
    // A day is longer than an hour, unless it is about to end.
    let waits = decision.verdicts().iter().filter_map(|verdict| verdict.retry_after);
    assert_eq!(decision.retry_span(), waits.max());
    // Limits that had passed are reported as they are after the refund.
    let decision = limiter.check(&[("user", "bob"), HERE], Cost::ONE).await;
    let left: Vec<_> = decision.verdicts().iter().map(|verdict| verdict.remaining).collect();
    assert_eq!((decision.is_allowed(), left), (false, vec![2, 0, 9]));
}

/// Counters in memory, as if each were on its own node.
struct InSteps(MemoryStore<ManualClock>);

impl Store for InSteps {
    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        _: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        Promise::Later(async move { Ok(self.0.settle_now(charges, out)) })
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.0.refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.0.reset(charge).await
    }

    fn profile(&self) -> StoreProfile {
        StoreProfile { is_stepwise: true, ..StoreProfile::remote([7; 16]) }
    }
}

#[tokio::test]
async fn a_denial_by_what_was_given_back_since_is_not_repeated() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000_000_020));
    let store = Arc::new(InSteps(MemoryStore::builder().clock(clock).build()));
    let policies = "
  - { name: users, key: [user], limits: [1/day] }
  - { name: ips, key: [ip], limits: [1/day] }";
    let limiter = by(policies, store.clone());
    assert!(limiter.check(&[HERE], Cost::ONE).await.is_allowed());
    // Another request has taken the last unit, and will be denied by another limit.
    assert!(limiter.check(&[EVE], Cost::ONE).await.is_allowed());
    assert!(!limiter.check(&[EVE], Cost::ONE).await.is_allowed());
    let plan = limiter.plan();
    store.refund(&plan.charges(&[EVE], Cost::ONE).charges()[0]).await.unwrap();
    assert_eq!(denied(&limiter).await.source(), DecisionSource::Store);
    assert_eq!(denied(&limiter).await.source(), DecisionSource::DenyCache);
    assert!(limiter.check(&[EVE], Cost::ONE).await.is_allowed());
}
