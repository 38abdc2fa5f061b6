//! A request that is decided about several times, and counted once.

use tidegate::{Decision, RequestCharges, Span, Stopwatch, Store};

use crate::App;
use crate::decisions::trace;
use crate::trace::DecisionTimer;

/// What a request was told for now. It counts when it is [the last word](App::conclude).
#[derive(Debug)]
#[must_use = "a request that nobody concludes is in no metric"]
pub struct DecisionAttempt {
    decision: Decision,
    watch: Option<Stopwatch>,
    timer: Option<DecisionTimer>,
}

impl DecisionAttempt {
    /// What was decided.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }
}

impl<S: Store> App<S> {
    /// Decides as [`decide`](Self::decide) does, and counts nothing yet: for those who wait in line and
    /// ask again when it is their turn.
    pub async fn attempt(&self, owed: &RequestCharges<'_>) -> DecisionAttempt {
        let (watch, asked) = (self.metrics().begin(), self.decision_timer());
        let decision = self.limiter().decide(owed).await;
        DecisionAttempt { decision, watch, timer: asked }
    }

    /// Denies without asking anybody, because others wait in line: see [`PlanLimiter::turn_away`].
    ///
    /// [`PlanLimiter::turn_away`]: tidegate::PlanLimiter::turn_away
    pub fn turn_away(&self, owed: &RequestCharges<'_>, index: usize, wait: Span) -> Decision {
        let (watch, asked) = (self.metrics().begin(), self.decision_timer());
        let decision = self.limiter().turn_away(owed, index, wait);
        self.conclude(owed, DecisionAttempt { decision, watch, timer: asked })
    }

    /// Takes note of the last attempt of a request, which is its decision.
    pub fn conclude(&self, owed: &RequestCharges<'_>, attempt: DecisionAttempt) -> Decision {
        let DecisionAttempt { decision, watch, timer: asked } = attempt;
        self.metrics().observe(owed, &decision, watch);
        trace(asked, owed, &decision);
        decision
    }
}
