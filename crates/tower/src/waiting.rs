//! A layer that lets denied requests wait for their turn.

use tidegate_limiter::{Decision, Fingerprint, WaitLimits, WaitQueues};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::backend::{LayerBackend, LayerCheck, LayerDecision};

/// The queues of a layer, and their bounds.
#[derive(Debug)]
pub(crate) struct LayerWaiting {
    limits: WaitLimits,
    queues: WaitQueues,
}

impl LayerWaiting {
    pub(crate) fn new(limits: WaitLimits) -> Self {
        Self { limits, queues: WaitQueues::default() }
    }

    /// Decides about a request when all earlier ones of the same caller have been decided about. A denial that
    /// ends in time is waited for.
    ///
    /// A request without a turn is denied without a decision, which could take the turn of the first in the
    /// queue. After the longest wait, every request that is in the queue now has had its turn or has left.
    pub(crate) async fn decide(
        &self,
        backend: &dyn LayerBackend,
        check: &LayerCheck,
        line: Fingerprint,
    ) -> LayerDecision {
        let turn_away = || LayerDecision::turned_away(Decision::deny(self.limits.max_wait), check);
        let Ok(place) = self.queues.join(line, self.limits.max_queue) else { return turn_away() };
        // `None` if the time cannot be represented: never give up then.
        let give_up_at = Instant::now().checked_add(self.limits.max_wait);
        let _turn = match give_up_at {
            Some(at) => match timeout_at(at, place.turn()).await {
                Ok(turn) => turn,
                Err(_) => return turn_away(),
            },
            None => place.turn().await,
        };
        loop {
            let decided = backend.decide(check).await;
            let wait = decided.decision.retry_after().filter(|_| !decided.decision.is_allowed());
            let ready_at = wait.and_then(|wait| Instant::now().checked_add(wait));
            let in_time = |at: &Instant| give_up_at.is_none_or(|give_up_at| *at <= give_up_at);
            match ready_at.filter(in_time) {
                Some(at) => sleep_until(at).await,
                None => return decided,
            }
        }
    }
}
