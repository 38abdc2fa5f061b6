//! `block_for`: a denied caller stays blocked for a while, whatever the store does.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tidegate::config::{Descriptor, PolicySource};
use tidegate::{
    Charge, ChargeIntent, Cost, DecisionReason, LocalStore, ManualClock, MemoryStore, PlanLimiter,
    Promise, SettleResult, Span, Store, StoreError, StoreErrorKind, StoreProfile, Timestamp,
    Verdicts,
};

const TEXT: &str = "policies: [{ name: login, key: [user], limits: [2/1s], block_for: 10m }]";

/// A remote store that counts its requests and can be disconnected.
struct Remote {
    memory: MemoryStore<ManualClock>,
    asked: AtomicUsize,
    is_away: AtomicBool,
}

impl Remote {
    fn new(clock: &ManualClock) -> Arc<Self> {
        let memory = MemoryStore::builder().clock(clock.clone()).build();
        Arc::new(Self { memory, asked: AtomicUsize::new(0), is_away: AtomicBool::new(false) })
    }
}

impl Store for Remote {
    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        _: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        Promise::Later(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            match self.is_away.load(Ordering::SeqCst) {
                true => Err(StoreError::new(StoreErrorKind::Unreachable, "gone")),
                false => Ok(self.memory.settle_now(charges, out)),
            }
        })
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.memory.refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.memory.reset(charge).await
    }

    fn profile(&self) -> StoreProfile {
        StoreProfile::remote([7; 16])
    }
}

fn limiter<S: Store>(store: S) -> PlanLimiter<S> {
    limiter_by(TEXT, store)
}

fn limiter_by<S: Store>(text: &str, store: S) -> PlanLimiter<S> {
    PlanLimiter::load(&PolicySource::new("limits.yaml", text).unwrap(), store).unwrap()
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

#[tokio::test]
async fn the_denial_that_blocks_says_how_long_the_block_takes() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let limiter = limiter(MemoryStore::builder().clock(clock.clone()).build());
    let check = || limiter.check(&[("user", "mallory")], Cost::ONE);
    assert!(check().await.is_allowed() && check().await.is_allowed());
    let first = check().await;
    assert_eq!(first.reason(), DecisionReason::LimitExceeded);
    assert_eq!(first.retry_span(), Some(Span::from_secs(600)));
    clock.advance(Span::from_secs(599));
    assert_eq!(check().await.reason(), DecisionReason::Blocked);
    clock.advance(Span::from_secs(1));
    assert!(check().await.is_allowed());
}

#[tokio::test]
async fn of_several_callers_in_one_request_only_the_denied_one_is_blocked() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let limiter = limiter(MemoryStore::builder().clock(clock.clone()).build());
    let alone = async |user: &str| limiter.check(&[("user", user)], Cost::ONE).await;
    assert!(alone("bob").await.is_allowed() && alone("bob").await.is_allowed());
    let plan = limiter.plan();
    let entries = [[("user", "alice")], [("user", "bob")]];
    let descriptors = entries.each_ref().map(|entries| Descriptor {
        entries: &entries[..],
        cost: Cost::ONE,
        limit: None,
    });
    let both = plan.descriptor_charges("edge", &descriptors).charges;
    assert!(!limiter.decide(&both, ChargeIntent::Take).await.is_allowed());
    clock.advance(Span::from_secs(2));
    assert!(alone("alice").await.is_allowed());
    assert_eq!(alone("bob").await.reason(), DecisionReason::Blocked);
    assert_eq!(limiter.decide(&both, ChargeIntent::Take).await.reason(), DecisionReason::Blocked);
}

#[tokio::test]
async fn a_cost_that_never_fits_blocks_nobody() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let limiter = limiter(MemoryStore::builder().clock(clock).build());
    let request = [("user", "alice")];
    let decision = limiter.check(&request, Cost::new(3).unwrap()).await;
    assert_eq!(decision.reason(), DecisionReason::CostExceedsLimit);
    assert!(limiter.check(&request, Cost::ONE).await.is_allowed());
}

#[tokio::test]
async fn a_store_that_is_away_is_asked_once_for_a_decision() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let store = Remote::new(&clock);
    let limiter = limiter(store.clone());
    store.is_away.store(true, Ordering::SeqCst);
    for requests in 1..=4 {
        // The third is denied, and blocked.
        let _ = limiter.check(&[("user", "mallory")], Cost::ONE).await;
        assert_eq!(store.asked.load(Ordering::SeqCst), requests);
    }
}

#[tokio::test]
async fn a_blocked_caller_does_not_reach_the_store_each_time() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let store = Remote::new(&clock);
    let limiter = limiter(store.clone());
    let check = || limiter.check(&[("user", "mallory")], Cost::ONE);
    for _ in 0..3 {
        let _ = check().await;
    }
    clock.advance(Span::from_secs(60));
    assert_eq!(check().await.reason(), DecisionReason::Blocked);
    let before = store.asked.load(Ordering::SeqCst);
    for _ in 0..100 {
        let decision = check().await;
        assert_eq!(decision.reason(), DecisionReason::Blocked);
        // The limiter remembers by the real clock, which may pass a second here.
        assert!(decision.retry_span().unwrap() > Span::from_secs(530));
    }
    let asked = store.asked.load(Ordering::SeqCst) - before;
    assert!(asked < 20, "asked {asked} times");
}

#[tokio::test]
async fn a_block_holds_while_the_store_is_away() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let store = Remote::new(&clock);
    let limiter = limiter(store.clone());
    let check = |user: &'static str| {
        let limiter = &limiter;
        async move { limiter.check(&[("user", user)], Cost::ONE).await.reason() }
    };
    for _ in 0..3 {
        let _ = check("mallory").await;
    }
    store.is_away.store(true, Ordering::SeqCst);
    assert_eq!(check("mallory").await, DecisionReason::Blocked);
    // The block starts without the store, too.
    for expected in
        [DecisionReason::WithinLimit, DecisionReason::WithinLimit, DecisionReason::LimitExceeded]
    {
        assert_eq!(check("eve").await, expected);
    }
    assert_eq!(check("eve").await, DecisionReason::Blocked);
}

/// If a limit denies for longer than the block, the wait is the limit's.
#[tokio::test]
async fn a_blocked_caller_waits_for_the_later_of_the_block_and_the_limit() {
    for (algorithm, block_for, first, then) in [
        ("fixed-window", 3, 20, 19),
        ("sliding-log", 3, 60, 59),
        // One of five comes back every twelve seconds.
        ("token-bucket", 3, 12, 11),
        ("token-bucket", 30, 30, 29),
    ] {
        let clock = ManualClock::at(Timestamp::from_secs(1_000));
        let text = format!(
            "policies: [{{ name: login, key: [ip], limits: [5/minute], algorithm: {algorithm}, \
             block_for: {block_for}s }}]"
        );
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = limiter_by(&text, store);
        let check = || limiter.check(&[("ip", "203.0.113.9")], Cost::ONE);
        for _ in 0..5 {
            assert!(check().await.is_allowed());
        }
        assert_eq!(check().await.retry_span(), Some(Span::from_secs(first)), "{algorithm}");
        clock.advance(Span::from_secs(1));
        for _ in 0..3 {
            let blocked = check().await;
            assert_eq!(blocked.reason(), DecisionReason::Blocked, "{algorithm}");
            assert_eq!(blocked.retry_span(), Some(Span::from_secs(then)), "{algorithm}");
        }
        clock.advance(Span::from_secs(then));
        assert!(check().await.is_allowed(), "{algorithm}");
    }
}

/// A sliding window reports when it is full again, which is later than needed but never too early.
#[tokio::test]
async fn a_blocked_caller_is_never_told_to_retry_too_early() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let text = "policies: [{ name: login, key: [ip], limits: [5/minute], block_for: 3s }]";
    let limiter = limiter_by(text, MemoryStore::builder().clock(clock.clone()).build());
    let check = |units| limiter.check(&[("ip", "203.0.113.9")], cost(units));
    assert!(check(5).await.is_allowed());
    let exact = check(1).await.retry_span().unwrap();
    assert!(check(1).await.retry_span().unwrap() >= exact);
    clock.advance(check(1).await.retry_span().unwrap());
    assert!(check(1).await.is_allowed());
}

#[tokio::test]
async fn a_blocked_caller_has_nothing_remaining() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let text = "policies: [{ name: bw, key: [bw], limits: [2/2s, 9/hour], \
                algorithm: fixed-window, block_for: 5s }]";
    let limiter = limiter_by(text, MemoryStore::builder().clock(clock.clone()).build());
    let check = || limiter.check(&[("bw", "a")], Cost::ONE);
    for _ in 0..3 {
        let _ = check().await;
    }
    clock.advance(Span::from_secs(3));
    for _ in 0..2 {
        let blocked = check().await;
        assert_eq!((blocked.reason(), blocked.remaining()), (DecisionReason::Blocked, Some(0)));
        assert_eq!(blocked.retry_span(), Some(Span::from_secs(2)));
        assert!(blocked.verdicts().iter().all(|it| !it.allowed && it.remaining == 0));
    }
    clock.advance(Span::from_secs(2));
    // Nothing was taken meanwhile: only two of nine, and this one.
    assert_eq!(check().await.verdicts()[1].remaining, 6);
}

#[tokio::test]
async fn other_policies_report_their_own_verdict_of_a_blocked_caller() {
    let clock = ManualClock::at(Timestamp::from_secs(1_200));
    let text = "
policies:
  - { name: login, key: [ip], limits: [1/2s], algorithm: fixed-window, block_for: 5s }
  - { name: daily, key: [user], limits: [2/minute], algorithm: fixed-window }
  - { name: wide, key: [user], limits: [99/hour] }
";
    let limiter = limiter_by(text, MemoryStore::builder().clock(clock.clone()).build());
    let check = || limiter.check(&[("ip", "203.0.113.9"), ("user", "mallory")], Cost::ONE);
    let _ = check().await;
    assert_eq!(check().await.retry_span(), Some(Span::from_secs(5)));
    assert_eq!(check().await.reason(), DecisionReason::Blocked);
    assert!(limiter.check(&[("user", "mallory")], Cost::ONE).await.is_allowed());
    let both = check().await;
    let allowed: Vec<bool> = both.verdicts().iter().map(|verdict| verdict.allowed).collect();
    assert_eq!(allowed, [false, false, true]);
    assert_eq!((both.tightest_index(), both.reason()), (Some(1), DecisionReason::LimitExceeded));
    assert_eq!(both.retry_span(), Some(Span::from_secs(60)));
}

#[tokio::test]
async fn a_cost_that_never_fits_is_told_so_while_blocked() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let limiter = limiter(Remote::new(&clock));
    let check = |units| limiter.check(&[("user", "mallory")], cost(units));
    for _ in 0..3 {
        let _ = check(1).await;
    }
    clock.advance(Span::from_secs(60));
    // First by the store, then by the cached denial of another cost.
    for units in [1, 3, 1, 3] {
        let decision = check(units).await;
        let (reason, waits) = match units {
            1 => (DecisionReason::Blocked, true),
            _ => (DecisionReason::CostExceedsLimit, false),
        };
        assert_eq!((decision.reason(), decision.retry_span().is_some()), (reason, waits));
    }
}
