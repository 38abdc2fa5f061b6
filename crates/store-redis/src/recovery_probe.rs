//! Finds out when Redis decides again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tokio::time::sleep;

use crate::dispatcher::{ClusterSlot, Dispatcher};
use crate::link::{RedisFailure, ScriptCall};

/// How often a probe checks whether Redis is back: at first, and at most.
const FIRST: Duration = Duration::from_millis(50);
const LAST: Duration = Duration::from_millis(500);
/// How long it waits for an answer. A connection that gives none in this time is replaced.
const PATIENCE: Duration = Duration::from_millis(250);

/// Checks whether Redis is back, until it is.
pub(crate) struct RecoveryProbe {
    dispatcher: Weak<Dispatcher>,
    place: ClusterSlot,
}

impl RecoveryProbe {
    pub(crate) fn new(courier: &Arc<Dispatcher>, place: ClusterSlot) -> Self {
        Self { dispatcher: Arc::downgrade(courier), place }
    }

    pub(crate) async fn run(self) {
        let mut pause = FIRST;
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(LAST);
            let Some(courier) = self.dispatcher.upgrade() else { return };
            match probe(&courier, self.place).await {
                Ok(()) => return,
                Err(failure) => courier.breaker(self.place.slot).update_cause(failure),
            }
        }
    }
}

/// Either Redis is back, or the runtime on which we would have noticed has ended, and callers on
/// another one have to find out.
impl Drop for RecoveryProbe {
    fn drop(&mut self) {
        if let Some(courier) = self.dispatcher.upgrade() {
            courier.breaker(self.place.slot).close();
        }
    }
}

/// Whether Redis decides again, and in time: makes a decision about nobody, at the place that
/// failed, over each of the connections that callers will be given. All at once, so that one of
/// them that hangs holds up no other.
async fn probe(courier: &Arc<Dispatcher>, place: ClusterSlot) -> Result<(), RedisFailure> {
    let call = Arc::new(courier.probe_call(place.subject));
    let start = |lane| {
        let (courier, call) = (Arc::clone(courier), Arc::clone(&call));
        tokio::spawn(async move { probe_lane(&courier, place, lane, &call).await })
    };
    let lanes: Vec<_> = (0..courier.link().lanes()).map(start).collect();
    let mut outcome = Ok(());
    for lane in lanes {
        outcome = outcome.and(lane.await.unwrap_or_else(|_| Err(abandoned())));
    }
    outcome
}

/// An answer that comes late does not count, or callers would find out by waiting.
async fn probe_lane(
    courier: &Dispatcher,
    place: ClusterSlot,
    lane: usize,
    call: &ScriptCall,
) -> Result<(), RedisFailure> {
    let took = courier.link().probe(place.slot, lane, call, PATIENCE).await?;
    let deadline = courier.deadline();
    if took <= deadline {
        return Ok(());
    }
    let message = format!("answers take too long: expected them within {deadline:?}");
    Err(RedisFailure::not_run(StoreErrorKind::Timeout, message))
}

fn abandoned() -> RedisFailure {
    RedisFailure::not_run(StoreErrorKind::Lost, "the runtime of the probe has ended")
}
