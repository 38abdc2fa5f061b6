//! Decisions that can be repeated for one request, of which only the last is counted.

use tidegate::{Decision, RequestCharges, Span, Stopwatch, Store};

use crate::App;
use crate::service::decisions::trace;
use crate::service::trace::DecisionTimer;

/// A decision that is counted only when it is [concluded](App::conclude).
#[derive(Debug)]
#[must_use = "an attempt that is not concluded is missing from the metrics"]
pub struct DecisionAttempt {
    decision: Decision,
    watch: Option<Stopwatch>,
    timer: Option<DecisionTimer>,
}

impl DecisionAttempt {
    /// The decision of this attempt.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }
}

impl<S: Store> App<S> {
    /// Decides as [`decide`](Self::decide) does, and counts nothing yet: for requests that wait in a
    /// queue and try again when it is their turn.
    pub async fn attempt(&self, charges: &RequestCharges<'_>) -> DecisionAttempt {
        let (watch, timer) = (self.metrics().begin(), self.decision_timer());
        let decision = self.limiter().decide(charges).await;
        DecisionAttempt { decision, watch, timer }
    }

    /// Denies without a look at the store, because others wait in the queue: see
    /// [`PlanLimiter::turn_away`].
    ///
    /// [`PlanLimiter::turn_away`]: tidegate::PlanLimiter::turn_away
    pub fn turn_away(&self, charges: &RequestCharges<'_>, index: usize, wait: Span) -> Decision {
        let (watch, timer) = (self.metrics().begin(), self.decision_timer());
        let decision = self.limiter().turn_away(charges, index, wait);
        self.conclude(charges, DecisionAttempt { decision, watch, timer })
    }

    /// Counts and traces the last attempt of a request, and returns its decision.
    pub fn conclude(&self, charges: &RequestCharges<'_>, attempt: DecisionAttempt) -> Decision {
        let DecisionAttempt { decision, watch, timer } = attempt;
        self.metrics().observe(charges, &decision, watch);
        trace(timer, charges, &decision);
        decision
    }
}
