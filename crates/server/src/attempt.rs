//! A request that is decided about several times, and counted once.

use tidegate::{Decision, Owed, Span, Stopwatch, Store};

use crate::App;
use crate::deciding::trace;
use crate::trace::Asked;

/// What a request was told for now. It counts when it is [the last word](App::conclude).
#[derive(Debug)]
#[must_use = "a request that nobody concludes is in no metric"]
pub struct Attempt {
    decision: Decision,
    watch: Option<Stopwatch>,
    asked: Option<Asked>,
}

impl Attempt {
    /// What was decided.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }
}

impl<S: Store> App<S> {
    /// Decides as [`settle`](Self::settle) does, and counts nothing yet: for those who wait in line and
    /// ask again when it is their turn.
    pub async fn attempt(&self, owed: &Owed<'_>) -> Attempt {
        let (watch, asked) = (self.metrics().begin(), self.asked());
        let decision = self.limiter().settle(owed).await;
        Attempt { decision, watch, asked }
    }

    /// Denies without asking anybody, because others wait in line: see [`PlanLimiter::turn_away`].
    ///
    /// [`PlanLimiter::turn_away`]: tidegate::PlanLimiter::turn_away
    pub fn turn_away(&self, owed: &Owed<'_>, index: usize, wait: Span) -> Decision {
        let (watch, asked) = (self.metrics().begin(), self.asked());
        let decision = self.limiter().turn_away(owed, index, wait);
        self.conclude(owed, Attempt { decision, watch, asked })
    }

    /// Takes note of the last attempt of a request, which is its decision.
    pub fn conclude(&self, owed: &Owed<'_>, attempt: Attempt) -> Decision {
        let Attempt { decision, watch, asked } = attempt;
        self.metrics().observe(owed, &decision, watch);
        trace(asked, owed, &decision);
        decision
    }
}
