//! `block_for`: who is denied stays denied for a while, whatever the store does.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tidegate::config::Source;
use tidegate::{
    Charge, Cost, LocalStore, ManualClock, MemoryStore, PlanLimiter, Reason, Span, Store,
    StoreError, StoreErrorKind, Timestamp, Verdicts,
};

const TEXT: &str = "policies: [{ name: login, key: [user], limits: [2/1s], block_for: 10m }]";

/// A store at the other end of a wire: it counts who asks, and it can be cut off.
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
    async fn settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Result<bool, StoreError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(StoreError::new(StoreErrorKind::Unreachable, "gone")),
            false => Ok(self.memory.settle_now(charges, out)),
        }
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.memory.refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.memory.reset(charge).await
    }

    fn shared_secret(&self) -> Option<[u8; 16]> {
        Some([7; 16])
    }
}

fn limiter<S: Store>(store: S) -> PlanLimiter<S> {
    PlanLimiter::load(&Source::new("limits.yaml", TEXT).unwrap(), store).unwrap()
}

#[tokio::test]
async fn the_denial_that_blocks_says_how_long_the_block_takes() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let limiter = limiter(MemoryStore::builder().clock(clock.clone()).build());
    let check = || limiter.check(&[("user", "mallory")], Cost::ONE);
    assert!(check().await.is_allowed() && check().await.is_allowed());
    let first = check().await;
    assert_eq!(first.reason(), Reason::LimitExceeded);
    assert_eq!(first.retry_after(), Some(Span::from_secs(600)));
    clock.advance(Span::from_secs(599));
    assert_eq!(check().await.reason(), Reason::Blocked);
    clock.advance(Span::from_secs(1));
    assert!(check().await.is_allowed());
}

#[tokio::test]
async fn a_cost_that_never_fits_blocks_nobody() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let limiter = limiter(MemoryStore::builder().clock(clock).build());
    let request = [("user", "alice")];
    let decision = limiter.check(&request, Cost::new(3).unwrap()).await;
    assert_eq!(decision.reason(), Reason::CostExceedsLimit);
    assert!(limiter.check(&request, Cost::ONE).await.is_allowed());
}

#[tokio::test]
async fn who_is_blocked_does_not_reach_the_store_again_and_again() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let store = Remote::new(&clock);
    let limiter = limiter(store.clone());
    let check = || limiter.check(&[("user", "mallory")], Cost::ONE);
    for _ in 0..3 {
        let _ = check().await;
    }
    clock.advance(Span::from_secs(60));
    assert_eq!(check().await.reason(), Reason::Blocked);
    let before = store.asked.load(Ordering::SeqCst);
    for _ in 0..100 {
        let decision = check().await;
        assert_eq!(decision.reason(), Reason::Blocked);
        // The limiter remembers by the real clock, which may pass a second here.
        assert!(decision.retry_after().unwrap() > Span::from_secs(530));
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
    assert_eq!(check("mallory").await, Reason::Blocked);
    // And it begins there, too.
    for expected in [Reason::WithinLimit, Reason::WithinLimit, Reason::LimitExceeded] {
        assert_eq!(check("eve").await, expected);
    }
    assert_eq!(check("eve").await, Reason::Blocked);
}
