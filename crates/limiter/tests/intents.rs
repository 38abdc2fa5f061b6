//! The intents of a decision: all of them take what they say, and nothing else.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::config::PolicySource;
use tidegate::{
    Charge, ChargeIntent, Cost, LocalStore, MemoryStore, PlanLimiter, Promise, SettleResult, Span,
    Store, StoreError, StoreProfile, Verdicts, WaitInLine, WaitQueues,
};

/// A remote store that counts its requests.
#[derive(Clone, Default)]
struct Remote {
    memory: Arc<MemoryStore>,
    asked: Arc<AtomicUsize>,
}

impl Store for Remote {
    fn profile(&self) -> StoreProfile {
        StoreProfile::remote([7; 16])
    }

    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        _: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        Promise::Later(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            Ok(self.memory.settle_now(charges, out))
        })
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.memory.refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.memory.reset(charge).await
    }
}

const POLICIES: &str = "
policies:
  - { name: api, key: [user], limits: [10/hour] }
  - { name: watched, key: [user], limits: [3/hour], mode: shadow }
";

fn limiter<S: Store>(store: S) -> PlanLimiter<S> {
    PlanLimiter::load(&PolicySource::new("limits.yaml", POLICIES).unwrap(), store).unwrap()
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

/// What the two limits have left for a user.
async fn left<S: Store>(limiter: &PlanLimiter<S>, user: &str) -> [u64; 2] {
    let plan = limiter.plan();
    let charges = plan.charges(&[("user", user)], Cost::PEEK);
    let decision = limiter.decide(&charges, ChargeIntent::Take).await;
    [decision.verdicts()[0].remaining, decision.verdicts()[1].remaining]
}

#[tokio::test]
async fn a_promise_that_is_dropped_unpolled_takes_nothing() {
    let remote = Remote::default();
    let limiter = limiter(remote.clone());
    let (plan, queues) = (limiter.plan(), WaitQueues::default());
    let charges = plan.charges(&[("user", "alice")], Cost::ONE);
    let max_waits = [Some(Span::from_secs(1)), None];
    let line = WaitInLine::new(&queues, Some(1), &max_waits);
    for intent in [
        ChargeIntent::Take,
        ChargeIntent::Peek,
        ChargeIntent::TakeUpTo,
        ChargeIntent::DenyOnly,
        ChargeIntent::Wait(&line),
    ] {
        assert!(limiter.decide(&charges, intent).ready().is_none(), "{intent:?}");
    }
    assert_eq!(remote.asked.load(Ordering::SeqCst), 0);
    assert_eq!(left(&limiter, "alice").await, [10, 3]);
}

#[tokio::test]
async fn an_embedded_store_needs_no_future() {
    let limiter = limiter(MemoryStore::new());
    let plan = limiter.plan();
    let charges = plan.charges(&[("user", "alice")], Cost::ONE);
    for (intent, remaining) in [(ChargeIntent::Peek, 10), (ChargeIntent::Take, 9)] {
        let decision = limiter.decide(&charges, intent).ready().unwrap();
        assert_eq!(decision.remaining(), Some(remaining));
    }
}

#[tokio::test]
async fn what_is_left_is_what_enforced_limits_have_left() {
    let run = async |user: &str, units: u64| {
        let limiter = limiter(Remote::default());
        let plan = limiter.plan();
        let charges = plan.charges(&[("user", user)], cost(units));
        let first = limiter.decide(&charges, ChargeIntent::TakeUpTo).await;
        let second = limiter.decide(&charges, ChargeIntent::TakeUpTo).await;
        (first.is_allowed(), second.is_allowed(), left(&limiter, user).await)
    };
    // Both fit into the enforced limit. The shadow limit had room for one of them.
    assert_eq!(run("alice", 2).await, (true, true, [6, 1]));
    // The second takes the rest, and is denied. The shadow limit has room for that rest.
    assert_eq!(run("bob", 7).await, (true, false, [0, 0]));
    // More than the limit takes all of it. The shadow limit never had room for that, and has no say.
    assert_eq!(run("carol", 11).await, (false, false, [0, 3]));
}

#[tokio::test]
async fn a_part_of_a_request_is_denied_or_takes_nothing() {
    let limiter = limiter(Remote::default());
    let plan = limiter.plan();
    let charges = |units| plan.charges(&[("user", "alice")], cost(units));
    let (small, large) = (charges(1), charges(10));
    assert!(limiter.decide(&small, ChargeIntent::DenyOnly).await.is_allowed());
    assert_eq!(left(&limiter, "alice").await, [10, 3]);
    assert!(limiter.decide(&large, ChargeIntent::Take).await.is_allowed());
    let denied = limiter.decide(&small, ChargeIntent::DenyOnly).await;
    assert!(!denied.is_allowed() && ChargeIntent::DenyOnly.is_final(&denied));
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_only_if_all_that_deny_it_let_it() {
    let text = "
policies:
  - { name: smooth, key: [user], limits: [1/second burst 1] }
  - { name: strict, key: [user], limits: [3/minute] }
";
    let source = PolicySource::new("limits.yaml", text).unwrap();
    let clock = tidegate::ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let (limiter, queues) = (PlanLimiter::load(&source, store).unwrap(), WaitQueues::default());
    let plan = limiter.plan();
    let charges = plan.charges(&[("user", "alice")], Cost::ONE);
    let max_waits = [Some(Span::from_secs(5)), None];
    let line = WaitInLine::new(&queues, Some(1), &max_waits);
    for is_allowed in [true, true, true, false] {
        let waiting = limiter.decide(&charges, ChargeIntent::Wait(&line)).into_future();
        let time = async {
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                clock.advance(Span::from_millis(100));
            }
        };
        tokio::select! {
            decision = waiting => assert_eq!(decision.is_allowed(), is_allowed),
            () = time => {}
        }
    }
    let full = WaitInLine::new(&queues, None, &max_waits);
    let denied = limiter.decide(&charges, ChargeIntent::Wait(&full)).await;
    assert_eq!((denied.remaining(), denied.retry_span()), (Some(0), Some(Span::from_secs(5))));
}
