//! Decisions by a remote store: callers get its verdicts unchanged.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tidegate::config::PolicySource as Text;
use tidegate::{
    AlgorithmKind, Charge, Cost, DecisionReason, DecisionSource, Limiter, LocalStore, ManualClock,
    MemoryStore, PlanLimiter, Promise, SettleResult, Span, Store, StoreError, StoreErrorKind,
    StoreProfile, Timestamp, Verdicts,
};

/// A remote store that counts its requests and can be disconnected.
#[derive(Clone)]
struct Remote {
    memory: Arc<MemoryStore<ManualClock>>,
    asked: Arc<AtomicUsize>,
    is_away: Arc<AtomicBool>,
}

impl Remote {
    fn new() -> Self {
        let clock = ManualClock::at(Timestamp::from_secs(1_000_000_020));
        let memory = Arc::new(MemoryStore::builder().clock(clock).build());
        Self { memory, asked: Arc::default(), is_away: Arc::default() }
    }

    fn answer(&self) -> Result<&MemoryStore<ManualClock>, StoreError> {
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(StoreError::new(StoreErrorKind::Unreachable, "gone")),
            false => Ok(&self.memory),
        }
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
            Ok(self.answer()?.settle_now(charges, out))
        })
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.answer()?.refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.answer()?.reset(charge).await
    }

    fn profile(&self) -> StoreProfile {
        StoreProfile::remote([7; 16])
    }
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

#[tokio::test]
async fn a_cost_that_never_fits_is_told_what_the_store_has() {
    for algorithm in AlgorithmKind::ALL {
        let build = || Limiter::builder().algorithm(*algorithm).limit("5/minute");
        let remote = build().store(Remote::new()).build().unwrap();
        let local = build().store(Remote::new().memory).build().unwrap();
        let _ = (remote.check_n("alice", cost(3)).await, local.check_n("alice", cost(3)).await);
        let (told, expected) =
            (remote.check_n("alice", cost(9)).await, local.check_n("alice", cost(9)).await);
        assert_eq!(told.verdicts(), expected.verdicts(), "{algorithm}");
        assert_eq!(
            (told.reason(), told.source()),
            (DecisionReason::CostExceedsLimit, DecisionSource::Store)
        );
    }
}

#[tokio::test]
async fn a_limit_of_nothing_asks_nobody() {
    let store = Remote::new();
    let limiter = Limiter::builder().limit("0/minute").store(store.clone()).build().unwrap();
    let decision = limiter.check("alice").await;
    assert_eq!((decision.is_allowed(), decision.source()), (false, DecisionSource::None));
    assert_eq!(store.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_stood_in_for_the_store_took_nothing_from_it() {
    let store = Remote::new();
    let limiter = Limiter::builder().limit("2/day").store(store.clone()).build().unwrap();
    let first = limiter.check("alice").await;
    store.is_away.store(true, Ordering::SeqCst);
    let second = limiter.check("alice").await;
    assert_eq!(
        (first.source(), second.source()),
        (DecisionSource::Store, DecisionSource::Fallback)
    );
    assert!(limiter.store_problem().is_some());
    assert!(limiter.reset("bob").await.is_err());
    store.is_away.store(false, Ordering::SeqCst);
    limiter.undo("alice", Cost::ONE, &second).await.unwrap();
    assert_eq!(limiter.peek("alice").await.remaining(), Some(1));
    limiter.undo("alice", Cost::ONE, &first).await.unwrap();
    assert_eq!(limiter.peek("alice").await.remaining(), Some(2));
}

#[tokio::test]
async fn a_new_plan_forgets_the_denials_of_the_old_one() {
    let text = |policies: &str| Text::new("t.yaml", format!("policies: [{policies}]")).unwrap();
    let (api, all) = ("name: api, key: [user], limits: [1/day]", "name: all, key: [], limits");
    let both = |mode: &str, most: u32| {
        text(&format!("{{ {api}, mode: {mode} }}, {{ {all}: [{most}/day] }}"))
    };
    let limiter = PlanLimiter::load(&both("enforce", 10), Remote::new()).unwrap();
    let bob = async || limiter.check(&[("user", "bob")], Cost::ONE).await;
    let _ = (bob().await, bob().await);
    let denied = bob().await;
    assert_eq!((denied.is_allowed(), denied.source()), (false, DecisionSource::DenyCache));

    // The other limits' verdicts are by the new plan, too.
    limiter.reload(&both("enforce", 20)).unwrap();
    let denied = bob().await;
    assert_eq!((denied.is_allowed(), denied.source()), (false, DecisionSource::Store));
    assert_eq!(denied.verdicts()[1].limit, 20);

    assert_eq!(bob().await.source(), DecisionSource::DenyCache);
    limiter.reload(&both("shadow", 20)).unwrap();
    let watched = bob().await;
    assert_eq!((watched.is_allowed(), watched.source()), (true, DecisionSource::Store));
}

#[tokio::test]
async fn failures_now_and_then_are_decided_from_where_the_store_was() {
    for algorithm in AlgorithmKind::ALL {
        let store = Remote::new();
        let builder = Limiter::builder().algorithm(*algorithm).limit("100/day");
        let limiter = builder.store(store.clone()).build().unwrap();
        assert!(limiter.check_n("alice", cost(30)).await.is_allowed());
        for failure in 0..20 {
            store.is_away.store(true, Ordering::SeqCst);
            let decision = limiter.check("alice").await;
            let told = (decision.source(), decision.remaining());
            assert_eq!(told, (DecisionSource::Fallback, Some(69 - failure)), "{algorithm}");
            store.is_away.store(false, Ordering::SeqCst);
            assert_eq!(limiter.check("alice").await.remaining(), Some(69 - failure), "{algorithm}");
        }
    }
}
