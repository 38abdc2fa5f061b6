//! Requests whose outcome is known before anybody is asked.

use tidegate_core::{Charge, Timestamp};
use tidegate_store::Verdicts;

use super::decision_of;
use crate::{Decision, DecisionSource};

/// What is known of a request before anybody is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feasibility {
    Possible,
    /// A limit lets nothing pass, or less than this costs. Only the store knows what is left of the
    /// others, or of that one.
    NeverPasses,
    /// All limits let nothing pass, so that nothing is to be known: a block list stays closed whatever
    /// fails.
    AllLimitsZero,
}

impl Feasibility {
    pub(super) fn of(charges: &[Charge<'_>]) -> Self {
        let capacity = |charge: &Charge<'_>| charge.rule().limit.capacity();
        let never =
            |charge: &&Charge<'_>| capacity(charge) == 0 || charge.cost().get() > capacity(charge);
        let mut enforced = charges.iter().filter(|charge| charge.rule().enforced);
        if !enforced.any(|charge| never(&charge)) {
            Self::Possible
        } else if charges.iter().all(|charge| capacity(charge) == 0) {
            Self::AllLimitsZero
        } else {
            Self::NeverPasses
        }
    }
}

/// Without a look at any counter.
pub(crate) fn denial_without_store(charges: &[Charge<'_>], source: DecisionSource) -> Decision {
    decision_of(charges, false, source, fresh_verdicts(charges))
}

fn fresh_verdicts(charges: &[Charge<'_>]) -> Verdicts {
    let fresh =
        |charge: &Charge<'_>| charge.rule().limit.probe_fresh(charge.cost(), Timestamp::ZERO);
    charges.iter().map(fresh).collect()
}
