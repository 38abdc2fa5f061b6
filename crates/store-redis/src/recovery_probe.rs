//! Probes a Redis that has failed until it decides again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tokio::time::sleep;

use crate::dispatcher::{ClusterSlot, Dispatcher};
use crate::link::{RedisFailure, ScriptCall};

/// The first and the longest pause between two probes.
const FIRST: Duration = Duration::from_millis(50);
const LAST: Duration = Duration::from_millis(500);
/// The time limit of a probe. A connection that does not answer within it is replaced.
pub(crate) const PATIENCE: Duration = Duration::from_millis(250);

/// Checks whether Redis is back, until it is.
pub(crate) struct RecoveryProbe {
    dispatcher: Weak<Dispatcher>,
    place: ClusterSlot,
}

impl RecoveryProbe {
    pub(crate) fn new(dispatcher: &Arc<Dispatcher>, place: ClusterSlot) -> Self {
        Self { dispatcher: Arc::downgrade(dispatcher), place }
    }

    pub(crate) async fn run(self) {
        let mut pause = FIRST;
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(LAST);
            let Some(dispatcher) = self.dispatcher.upgrade() else { return };
            match probe(&dispatcher, self.place).await {
                Ok(()) => return,
                Err(failure) => dispatcher.breaker(self.place.slot).update_cause(failure),
            }
        }
    }
}

/// Closes the breaker: either Redis is back, or the probe's runtime has ended, and callers on another
/// runtime have to find out.
impl Drop for RecoveryProbe {
    fn drop(&mut self) {
        if let Some(dispatcher) = self.dispatcher.upgrade() {
            dispatcher.breaker(self.place.slot).close();
        }
    }
}

/// Checks whether Redis decides again, and in time: makes a decision that affects no client, at the
/// place that failed, over each connection that callers will use. The connections are probed
/// concurrently, so that one that hangs does not delay the others.
async fn probe(dispatcher: &Arc<Dispatcher>, place: ClusterSlot) -> Result<(), RedisFailure> {
    let call = Arc::new(dispatcher.probe_call(place.subject));
    let start = |lane| {
        let (dispatcher, call) = (Arc::clone(dispatcher), Arc::clone(&call));
        tokio::spawn(async move { probe_lane(&dispatcher, place, lane, &call).await })
    };
    let lanes: Vec<_> = (0..dispatcher.link().lanes()).map(start).collect();
    let mut outcome = Ok(());
    for lane in lanes {
        outcome = outcome.and(lane.await.unwrap_or_else(|_| Err(abandoned())));
    }
    outcome
}

/// Probes one connection. A late answer is a failure, since callers would have stopped waiting.
async fn probe_lane(
    dispatcher: &Dispatcher,
    place: ClusterSlot,
    lane: usize,
    call: &ScriptCall,
) -> Result<(), RedisFailure> {
    let took = dispatcher.link().probe(place.slot, lane, call, PATIENCE).await?;
    let deadline = dispatcher.deadline();
    if took <= deadline {
        return Ok(());
    }
    let message = format!("answers take too long: expected them within {deadline:?}");
    Err(RedisFailure::not_run(StoreErrorKind::Timeout, message))
}

fn abandoned() -> RedisFailure {
    RedisFailure::not_run(StoreErrorKind::Lost, "the runtime of the probe has ended")
}
