//! Leases on a real Redis: units that are taken in advance are counted, spent locally, and never exceed
//! the limit.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

use std::sync::Arc;
use std::time::Duration;

use tidegate::config::PolicySource as Text;
use tidegate::{
    ChargeIntent, Cost, DecisionReason, DecisionSource, Limiter, PlanLimiter, Precision,
    RedisConfig, RedisStore,
};
use tidegate_testkit::Redis;

/// Windows that do not end while a test runs.
const POLICIES: &str = "
defaults: { algorithm: fixed-window, store_deadline: 5s }
policies:
  - name: leased
    key: [user]
    limits: [3000/300d]
    precision: { leased: { max_over: 10% } }
  - name: twice
    match: { path: /twice }
    key: [path]
    limits: [3000/300d, 100000/400d]
    precision: { leased: { max_over: 10% } }
  - name: exact
    match: { path: /exact }
    key: [path]
    limits: [3000/300d]
  - name: few
    match: { path: /few }
    key: [path]
    limits: [2/300d]
";

fn instance(redis: &Redis, nodes: u32) -> Arc<PlanLimiter<RedisStore>> {
    let config: RedisConfig = redis.url().parse().unwrap();
    // Slow machines have slow tests, which is not what these are about.
    let store = RedisStore::builder(config).secret("a secret").deadline(Duration::from_secs(5));
    let source = Text::new("leases.yaml", POLICIES).unwrap();
    Arc::new(PlanLimiter::load(&source, store.build()).unwrap().expected_nodes(nodes))
}

/// Checks until it is denied. Returns how many were allowed, and how many of them by a lease.
async fn ask_until_denied(limiter: Arc<PlanLimiter<RedisStore>>) -> (u64, u64) {
    let (mut allowed, mut leased) = (0, 0);
    loop {
        let decision = limiter.check(&[("user", "alice")][..], Cost::ONE).await;
        if !decision.is_allowed() {
            return (allowed, leased);
        }
        allowed += 1;
        leased += u64::from(decision.source() == DecisionSource::Lease);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_admit_the_limit_together_and_seldom_ask() {
    let redis = Redis::start();
    let instances = [instance(&redis, 3), instance(&redis, 3), instance(&redis, 3)];
    let callers: Vec<_> = instances
        .iter()
        .flat_map(|limiter| (0..8).map(|_| tokio::spawn(ask_until_denied(Arc::clone(limiter)))))
        .collect();
    let (mut allowed, mut leased) = (0, 0);
    for caller in callers {
        let (all, by_lease) = caller.await.unwrap();
        allowed += all;
        leased += by_lease;
    }
    assert_eq!(allowed, 3_000);
    assert!(leased > allowed / 2, "{leased}");
}

#[tokio::test]
async fn what_remains_is_what_the_store_has_and_what_was_taken() {
    let redis = Redis::start();
    let limiter = instance(&redis, 1);
    let alice = &[("user", "alice")][..];
    for (used, source) in
        [DecisionSource::Store, DecisionSource::Store, DecisionSource::Lease, DecisionSource::Lease]
            .iter()
            .enumerate()
    {
        let decision = limiter.check(alice, Cost::ONE).await;
        assert_eq!((decision.source(), decision.remaining()), (*source, Some(2_999 - used as u64)));
        assert!(decision.reset_span().is_some_and(|reset| reset.as_secs_ceil() > 0));
    }
    // A peek includes the store and the lease.
    let plan = limiter.plan();
    let request_charges = plan.charges(alice, Cost::ONE);
    assert_eq!(limiter.decide(&request_charges, ChargeIntent::Peek).await.remaining(), Some(2_996));
    // A reset drops the lease too.
    limiter.reset(&request_charges).await.unwrap();
    assert_eq!(limiter.check(alice, Cost::ONE).await.remaining(), Some(2_999));
}

#[tokio::test]
async fn only_policies_that_ask_for_it_are_leased_and_only_with_one_limit() {
    let redis = Redis::start();
    let limiter = instance(&redis, 1);
    for path in ["/twice", "/exact"] {
        for _ in 0..10 {
            let decision = limiter.check(&[("path", path)][..], Cost::ONE).await;
            assert_eq!(decision.source(), DecisionSource::Store, "{path}");
        }
    }
}

#[tokio::test]
async fn what_was_taken_is_spent_also_when_the_store_is_gone() {
    let redis = Redis::start();
    let limiter = instance(&redis, 1);
    let alice = &[("user", "alice")][..];
    for _ in 0..2 {
        assert!(limiter.check(alice, Cost::ONE).await.is_allowed());
    }
    redis.kill();
    for _ in 0..299 {
        let decision = limiter.check(alice, Cost::ONE).await;
        assert_eq!((decision.is_allowed(), decision.source()), (true, DecisionSource::Lease));
    }
    assert_eq!(limiter.check(alice, Cost::ONE).await.source(), DecisionSource::Fallback);
}

/// Decisions that need no store work without it, and a cost that never fits is reported as such.
#[tokio::test]
async fn what_never_fits_is_called_that_also_where_a_denial_is_remembered() {
    let redis = Redis::start();
    let limiter = instance(&redis, 1);
    let few = &[("path", "/few")][..];
    let ask = |cost| limiter.check(few, Cost::new(cost).unwrap());
    assert!(ask(2).await.is_allowed());
    assert_eq!(ask(1).await.source(), DecisionSource::Store);
    let again = ask(1).await;
    assert_eq!(
        (again.source(), again.reason()),
        (DecisionSource::DenyCache, DecisionReason::LimitExceeded)
    );
    let never = ask(3).await;
    assert_eq!((never.reason(), never.retry_span()), (DecisionReason::CostExceedsLimit, None));
}

#[tokio::test]
async fn a_limiter_of_one_policy_takes_ahead_too() {
    let redis = Redis::start();
    let config: RedisConfig = redis.url().parse().unwrap();
    let store = RedisStore::builder(config).deadline(Duration::from_secs(5)).build();
    let leased = Precision::Leased { max_over_permille: 100 };
    let limiter = Limiter::builder().limit("1000/300d").precision(leased).store(store);
    let limiter = limiter.build().unwrap();
    assert!(limiter.try_check_n("alice", Cost::ONE).is_none());
    for _ in 0..2 {
        assert_eq!(limiter.check("alice").await.source(), DecisionSource::Store);
    }
    // Without a request to the store, no call has to wait.
    let decision = limiter.try_check_n("alice", Cost::ONE).unwrap();
    assert_eq!((decision.source(), decision.remaining()), (DecisionSource::Lease, Some(997)));
    assert!(limiter.try_check_n("bob", Cost::ONE).is_none());
}
