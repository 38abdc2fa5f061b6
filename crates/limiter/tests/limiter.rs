//! The limiter as its users see it.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::future::ready;
use std::sync::Arc;

use tidegate::{
    AlgorithmKind, Charge, Cost, Decision, DecisionReason, DecisionSource, Limiter, ManualClock,
    MemoryStore, OnStoreError, Promise, SettleResult, Span, Store, StoreError, StoreErrorKind,
    Timestamp, Verdicts,
};

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

fn limiter(limits: &[&str]) -> (Limiter<MemoryStore<ManualClock>>, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_secs(1_000_000_020));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = Limiter::builder().limits(limits.iter().copied()).store(store).build().unwrap();
    (limiter, clock)
}

#[tokio::test]
async fn a_decision_says_what_a_client_wants_to_know() {
    let (limiter, clock) = limiter(&["2/minute burst 2"]);
    let decision = limiter.check("alice").await;
    assert!(decision.is_allowed());
    assert_eq!((decision.limit(), decision.remaining()), (Some(2), Some(1)));
    assert_eq!((decision.retry_span(), decision.reset_span()), (None, Some(Span::from_secs(30))));
    assert_eq!(
        (decision.reason(), decision.source()),
        (DecisionReason::WithinLimit, DecisionSource::Store)
    );

    let decision = limiter.check_n("alice", cost(2)).await;
    assert!(!decision.is_allowed());
    assert_eq!(decision.reason(), DecisionReason::LimitExceeded);
    let wait = decision.retry_span().unwrap();
    assert_eq!(wait, Span::from_secs(30));
    clock.advance(wait);
    assert!(limiter.check_n("alice", cost(2)).await.is_allowed());

    let decision = limiter.check_n("alice", cost(3)).await;
    assert_eq!(
        (decision.reason(), decision.retry_span()),
        (DecisionReason::CostExceedsLimit, None)
    );
}

#[tokio::test]
async fn peek_takes_nothing_refund_gives_back_reset_forgets() {
    let (limiter, _) = limiter(&["5/minute", "100/hour burst 50"]);
    let remaining = async || {
        let peek = limiter.peek("alice").await;
        peek.verdicts().iter().map(|verdict| verdict.remaining).collect::<Vec<_>>()
    };
    let _ = limiter.check_n("alice", cost(4)).await;
    assert_eq!(remaining().await, [1, 46]);
    assert_eq!(remaining().await, [1, 46]);
    limiter.refund("alice", cost(3)).await.unwrap();
    assert_eq!(remaining().await, [4, 49]);
    limiter.refund("alice", cost(300)).await.unwrap();
    assert_eq!(remaining().await, [5, 50]);
    let _ = limiter.check_n("alice", cost(5)).await;
    limiter.reset("alice").await.unwrap();
    assert_eq!(remaining().await, [5, 50]);
}

#[tokio::test]
async fn several_limits_pay_together_or_not_at_all() {
    let (limiter, _) = limiter(&["3/minute", "10/hour"]);
    for _ in 0..3 {
        assert!(limiter.check("alice").await.is_allowed());
    }
    for _ in 0..20 {
        assert!(!limiter.check("alice").await.is_allowed());
    }
    let decision = limiter.peek("alice").await;
    assert_eq!(decision.verdicts()[1].remaining, 7);
    assert_eq!(decision.tightest_index(), Some(0));
}

#[test]
fn a_shadow_watches_and_lets_pass() {
    let limiter = Limiter::builder().limit("1/minute").shadow().build().unwrap();
    for expected in [true, false] {
        let decision = limiter.check_now("alice");
        assert!(decision.is_allowed());
        assert_eq!(decision.verdicts()[0].allowed, expected);
        assert_eq!((decision.reason(), decision.remaining()), (DecisionReason::NoPolicy, None));
    }
}

#[test]
fn check_now_decides_like_check() {
    for algorithm in AlgorithmKind::ALL {
        let limiter = Limiter::builder().limit("3/day").algorithm(*algorithm).build().unwrap();
        let allowed = (0..5).filter(|_| limiter.check_now("alice").is_allowed()).count();
        assert_eq!(allowed, 3, "{algorithm}");
        assert_eq!(limiter.stats().keys, 1);
    }
}

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
        Err(StoreError::new(StoreErrorKind::Unreachable, "gone"))
    }

    async fn reset(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        Err(StoreError::new(StoreErrorKind::Unreachable, "gone"))
    }
}

async fn three_checks(mode: OnStoreError) -> Vec<Decision> {
    let limiter =
        Limiter::builder().limit("2/day").store(Broken).on_store_error(mode).build().unwrap();
    let mut decisions = Vec::new();
    for _ in 0..3 {
        decisions.push(limiter.check("alice").await);
    }
    decisions
}

#[tokio::test]
async fn a_broken_store_fails_as_the_policy_says() {
    let allowed = |decisions: &[Decision]| decisions.iter().map(Decision::is_allowed).collect();
    for (mode, expected) in [
        (OnStoreError::Local, vec![true, true, false]),
        (OnStoreError::Open, vec![true; 3]),
        (OnStoreError::Closed, vec![false; 3]),
    ] {
        let decisions = three_checks(mode).await;
        let actual: Vec<bool> = allowed(&decisions);
        assert_eq!(actual, expected, "{mode:?}");
        assert!(decisions.iter().all(|decision| decision.source() == DecisionSource::Fallback));
    }
    let closed = &three_checks(OnStoreError::Closed).await[0];
    assert_eq!(closed.reason(), DecisionReason::StoreUnavailable);
}

#[tokio::test]
async fn what_can_never_pass_stays_denied_without_a_store() {
    for mode in [OnStoreError::Local, OnStoreError::Open, OnStoreError::Closed] {
        let build = |limit| {
            let builder = Limiter::builder().limit(limit).store(Broken).on_store_error(mode);
            builder.build().unwrap()
        };
        let blocked = build("0/second").check("alice").await;
        assert_eq!(
            (blocked.is_allowed(), blocked.reason()),
            (false, DecisionReason::CostExceedsLimit)
        );
        assert!(!build("5/minute").check_n("alice", cost(6)).await.is_allowed());
    }
}

#[test]
fn a_policy_made_anew_finds_its_counts() {
    let store = Arc::new(MemoryStore::new());
    let limiter = |limit| {
        Limiter::builder().name("api").limit(limit).store(Arc::clone(&store)).build().unwrap()
    };
    let before = limiter("5/day");
    assert!((0..5).all(|_| before.check_now("alice").is_allowed()));
    assert_eq!(limiter("9/day").peek_now("alice").remaining(), Some(4));
    assert_eq!(limiter("9/hour").peek_now("alice").remaining(), Some(9));
    before.refund_now("alice", cost(2));
    assert_eq!(before.peek_now("alice").remaining(), Some(2));
    before.reset_now("alice");
    assert_eq!(before.peek_now("alice").remaining(), Some(5));
}

#[tokio::test]
async fn the_fallback_takes_refunds_and_resets() {
    let limiter = Limiter::builder().limit("1/day").store(Broken).build().unwrap();
    assert!(limiter.check("alice").await.is_allowed());
    assert!(!limiter.check("alice").await.is_allowed());
    assert!(limiter.refund("alice", Cost::ONE).await.is_err());
    assert!(limiter.check("alice").await.is_allowed());
    assert!(limiter.reset("alice").await.is_err());
    assert!(limiter.check("alice").await.is_allowed());
}
