//! A layer that lets denied requests wait for their turn.

use tidegate_limiter::{Decision, Fingerprint, WaitLimits, WaitQueues};

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
        let decide = || backend.decide(check);
        let wait_for = |decided: &LayerDecision| {
            decided.decision.retry_after().filter(|_| !decided.decision.is_allowed())
        };
        let decided = self.queues.in_turn(line, self.limits, decide, wait_for).await;
        let turned_away =
            |_| LayerDecision::turned_away(Decision::deny(self.limits.max_wait), check);
        decided.unwrap_or_else(turned_away)
    }
}
