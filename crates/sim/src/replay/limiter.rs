//! The limiter of a replay, which decides at the times of a log.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate::{
    ChargeIntent, Decision, ManualClock, MemoryStats, MemoryStore, Plan, PlanLimiter,
    RequestCharges, Timestamp,
};

/// A limiter that decides by a plan, at given times.
pub trait ReplayLimiter {
    /// The plan.
    fn plan(&self) -> &Arc<Plan>;

    /// Decides these charges at this time, which is never earlier than the previous one.
    fn decide(&self, charges: &RequestCharges<'_>, at: Timestamp) -> Decision;

    /// What the store holds, if it is in this process.
    fn stats(&self) -> Option<MemoryStats> {
        None
    }
}

/// A replay limiter with the embedded store.
#[derive(Debug)]
pub struct MemoryReplayLimiter {
    plan: Arc<Plan>,
    limiter: PlanLimiter<MemoryStore<ManualClock>>,
    clock: ManualClock,
}

impl MemoryReplayLimiter {
    /// Its memory is bounded so that two of them fit into half a gigabyte.
    pub fn new(plan: Plan) -> Self {
        let clock = ManualClock::default();
        let store = MemoryStore::builder()
            .clock(clock.clone())
            .max_keys(MOST_KEYS)
            .max_log_bytes(MOST_LOG_BYTES)
            .build();
        let limiter = PlanLimiter::new(plan, store);
        Self { plan: limiter.plan(), limiter, clock }
    }
}

impl ReplayLimiter for MemoryReplayLimiter {
    fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    fn decide(&self, charges: &RequestCharges<'_>, at: Timestamp) -> Decision {
        self.clock.set(at);
        let mut decision = pin!(self.limiter.decide(charges, ChargeIntent::Take).into_future());
        let mut context = Context::from_waker(Waker::noop());
        loop {
            // A store in this process answers immediately.
            if let Poll::Ready(decision) = decision.as_mut().poll(&mut context) {
                return decision;
            }
            std::thread::yield_now();
        }
    }

    fn stats(&self) -> Option<MemoryStats> {
        Some(self.limiter.store().stats())
    }
}

/// Two million keys of one limit.
const MOST_KEYS: usize = 2_900_000;
const MOST_LOG_BYTES: usize = 64 << 20;
