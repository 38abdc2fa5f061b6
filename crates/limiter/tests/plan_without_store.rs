//! A plan with a failing store: each policy has its own behaviour.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::future::ready;
use tidegate::config::PolicySource;
use tidegate::{
    Charge, ChargeIntent, Cost, DecisionReason, MemoryStore, Plan, PlanLimiter, Promise,
    SettleResult, Span, Store, StoreError, StoreErrorKind, Verdicts,
};

/// A store that never answers.
struct Broken;

impl Store for Broken {
    fn settle<'a>(
        &'a self,
        _: &'a [Charge<'a>],
        _: Option<Span>,
        _: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        Promise::Later(ready(Err(StoreError::new(StoreErrorKind::Unreachable, "gone"))))
    }

    async fn refund(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn reset(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

fn plan(text: &str) -> Plan {
    let source = PolicySource::new("test.yaml", text).unwrap();
    Plan::compile(&source).unwrap_or_else(|problems| panic!("{problems}"))
}

#[tokio::test]
async fn each_policy_has_its_own_answer_to_a_store_that_fails() {
    let limiter = PlanLimiter::new(
        plan(
            "
policies:
  - { name: local, match: { a: '*' }, key: [], limits: [2/day], on_store_error: local }
  - { name: open, match: { b: '*' }, key: [], limits: [1/day], on_store_error: open }
  - { name: closed, match: { c: '*' }, key: [], limits: [9/day], on_store_error: closed }
  - { name: watched, match: { d: '*' }, key: [], limits: [9/day], on_store_error: closed, mode: shadow }
  - { name: blocked, match: { e: '*' }, key: [], limits: [0/s], on_store_error: open }
",
        ),
        Broken,
    );
    let ask = async |names: &[&str]| {
        let request: Vec<(&str, &str)> = names.iter().map(|name| (*name, "")).collect();
        let decision = limiter.check(&request, Cost::ONE).await;
        (decision.is_allowed(), decision.reason())
    };
    assert_eq!(ask(&["b"]).await, (true, DecisionReason::StoreUnavailable));
    assert_eq!(ask(&["c"]).await, (false, DecisionReason::StoreUnavailable));
    assert_eq!(ask(&["d"]).await, (true, DecisionReason::StoreUnavailable));
    // The open policy is only observed beside the local one, and never denies.
    assert_eq!(ask(&["a", "b"]).await, (true, DecisionReason::WithinLimit));
    assert_eq!(ask(&["a", "b"]).await, (true, DecisionReason::WithinLimit));
    assert_eq!(ask(&["a", "b"]).await, (false, DecisionReason::LimitExceeded));
    assert_eq!(ask(&["a", "c"]).await, (false, DecisionReason::StoreUnavailable));
    // A block list denies even without the store.
    assert_eq!(ask(&["b", "e"]).await, (false, DecisionReason::CostExceedsLimit));
    assert_eq!(ask(&[]).await, (true, DecisionReason::NoPolicy));
}

#[tokio::test]
async fn more_limits_than_can_be_settled_deny() {
    let policy = |n| format!("  - {{ name: p{n}, match: {{ x: '*' }}, key: [], limits: [1/s] }}\n");
    let text: String = (0..33).map(policy).collect();
    let limiter = PlanLimiter::new(plan(&format!("policies:\n{text}")), MemoryStore::new());
    assert!(!limiter.check(&[("x", "1")], Cost::ONE).await.is_allowed());
}

#[tokio::test]
async fn a_replaced_plan_finds_the_counts() {
    let text = |quota| format!("policies: [{{ name: a, key: [user], limits: [{quota}/day] }}]");
    let limiter = PlanLimiter::new(plan(&text(1)), MemoryStore::new());
    let user = [("user", "42")];
    assert!(limiter.check(&user, Cost::ONE).await.is_allowed());
    assert!(!limiter.check(&user, Cost::ONE).await.is_allowed());
    limiter.replace(plan(&text(2)));
    assert_eq!(limiter.check(&user, Cost::ONE).await.remaining(), Some(0));
}

#[tokio::test]
async fn who_is_denied_stays_blocked_for_as_long_as_the_policy_says() {
    let text = "policies: [{ name: login, key: [user], limits: [2/1s], block_for: 10m }]";
    let clock = tidegate::ManualClock::at(tidegate::Timestamp::from_secs(1_000));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter =
        PlanLimiter::load(&PolicySource::new("limits.yaml", text).unwrap(), store).unwrap();
    let check = || limiter.check(&[("user", "mallory")], Cost::ONE);
    assert!(check().await.is_allowed() && check().await.is_allowed());
    assert_eq!(check().await.reason(), tidegate::DecisionReason::LimitExceeded);
    clock.advance(tidegate::Span::from_secs(60));
    let blocked = check().await;
    assert_eq!(
        (blocked.is_allowed(), blocked.reason()),
        (false, tidegate::DecisionReason::Blocked)
    );
    assert_eq!(blocked.retry_span(), Some(tidegate::Span::from_secs(540)));
    assert!(limiter.check(&[("user", "alice")], Cost::ONE).await.is_allowed());
    clock.advance(tidegate::Span::from_secs(540));
    assert!(check().await.is_allowed());
}

/// `examples/policies/accounts.yaml`: five attempts in a minute, and then none for a quarter of an hour,
/// even after the minute has ended.
#[tokio::test]
async fn a_login_under_attack_is_closed_for_a_quarter_of_an_hour() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policies/accounts.yaml");
    let clock = tidegate::ManualClock::at(tidegate::Timestamp::from_secs(1_000));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let source = PolicySource::read(std::path::Path::new(path)).unwrap();
    let limiter = PlanLimiter::load(&source, store).unwrap();
    let login = |ip: &'static str| {
        let request = [("path", "/login"), ("method", "POST"), ("ip", ip)];
        let limiter = &limiter;
        async move { limiter.check(&request, Cost::ONE).await.reason() }
    };
    for _ in 0..5 {
        assert_eq!(login("203.0.113.9").await, tidegate::DecisionReason::WithinLimit);
    }
    assert_eq!(login("203.0.113.9").await, tidegate::DecisionReason::LimitExceeded);
    clock.advance(tidegate::Span::from_secs(14 * 60));
    assert_eq!(login("203.0.113.9").await, tidegate::DecisionReason::Blocked);
    assert_eq!(login("203.0.113.10").await, tidegate::DecisionReason::WithinLimit);
    clock.advance(tidegate::Span::from_secs(60));
    assert_eq!(login("203.0.113.9").await, tidegate::DecisionReason::WithinLimit);
}

#[tokio::test]
async fn what_was_taken_is_given_back_and_who_is_reset_starts_anew() {
    let text = "policies: [{ name: api, key: [user], limits: [2/hour], block_for: 1h }]";
    let limiter =
        PlanLimiter::load(&PolicySource::new("test", text).unwrap(), MemoryStore::new()).unwrap();
    let (plan, alice) = (limiter.plan(), [("user", "alice")]);
    let (one, two) = (plan.charges(&alice, Cost::ONE), plan.charges(&alice, Cost::new(2).unwrap()));
    assert!(limiter.decide(&two, ChargeIntent::Take).await.is_allowed());
    limiter.refund(&one).await.unwrap();
    assert!(limiter.decide(&one, ChargeIntent::Take).await.is_allowed());
    assert!(!limiter.decide(&one, ChargeIntent::Take).await.is_allowed());
    // Blocked by now, whatever is given back.
    limiter.refund(&two).await.unwrap();
    assert!(!limiter.decide(&one, ChargeIntent::Take).await.is_allowed());
    limiter.reset(&one).await.unwrap();
    assert!(limiter.decide(&two, ChargeIntent::Take).await.is_allowed());
}

#[tokio::test]
async fn a_limit_that_comes_with_the_request_counts_by_itself() {
    let text = "policies: [{ name: api, key: [user], limits: [1/hour] }]";
    let limiter = PlanLimiter::new(plan(text), MemoryStore::new());
    let ask = async |quota: &str, space: &str, key: &str| {
        let asked = limiter.plan().ad_hoc(space, quota.parse().unwrap(), key);
        limiter.decide(&asked.request_charges(Cost::ONE), ChargeIntent::Take).await
    };
    assert!(limiter.check(&[("user", "alice")], Cost::ONE).await.is_allowed());
    assert_eq!(ask("2/hour burst 2", "api", "alice").await.remaining(), Some(1));
    assert_eq!(ask("2/hour burst 2", "api", "bob").await.remaining(), Some(1));
    assert_eq!(ask("2/hour burst 2", "other", "alice").await.remaining(), Some(1));
    // A new quota finds the count.
    assert_eq!(ask("9/hour burst 3", "api", "alice").await.remaining(), Some(1));
    assert_eq!(ask("2/hour burst 2", "api", "alice").await.reason(), DecisionReason::LimitExceeded);
}

#[tokio::test]
async fn a_limit_that_comes_with_the_request_has_a_local_fallback() {
    let limiter = PlanLimiter::new(plan("policies: [{ name: a, key: [], limits: [1/s] }]"), Broken);
    let asked = limiter.plan().ad_hoc("x", "1/hour".parse().unwrap(), "alice");
    let charges = asked.request_charges(Cost::ONE);
    for reason in [DecisionReason::WithinLimit, DecisionReason::LimitExceeded] {
        assert_eq!(limiter.decide(&charges, ChargeIntent::Take).await.reason(), reason);
    }
}

#[tokio::test]
async fn a_peek_takes_nothing_and_tells_when_nothing_is_left() {
    let text = "
policies:
  - { name: api, key: [user], limits: [2/hour], algorithm: fixed-window }
  - { name: watched, key: [user], limits: [1/hour], mode: shadow }
";
    let limiter = PlanLimiter::new(plan(text), MemoryStore::new());
    let plan = limiter.plan();
    let request_charges = plan.charges(&[("user", "42")], Cost::ONE);
    for _ in 0..3 {
        assert!(limiter.decide(&request_charges, ChargeIntent::Peek).await.is_allowed());
    }
    for _ in 0..2 {
        assert!(limiter.decide(&request_charges, ChargeIntent::Take).await.is_allowed());
    }
    let decision = limiter.decide(&request_charges, ChargeIntent::Peek).await;
    assert_eq!((decision.is_allowed(), decision.reason()), (false, DecisionReason::LimitExceeded));
    assert_eq!(decision.retry_span(), decision.reset_span());
}
