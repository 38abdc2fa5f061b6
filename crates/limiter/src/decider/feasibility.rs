//! Finds requests that can never pass, before the store is asked.

use tidegate_core::{Charge, Timestamp};
use tidegate_store::Verdicts;

use super::decision_of;
use crate::{Decision, DecisionSource};

/// Whether a request can pass at all, by its cost and the limits alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feasibility {
    Possible,
    /// An enforced limit is zero, or smaller than the cost. Only the store knows how much is left of
    /// each limit.
    NeverPasses,
    /// All limits are zero, so the store has nothing to add: a block list denies even if the store fails.
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

/// A denial with the verdicts of fresh counters, without a look at the real ones.
pub(crate) fn denial_without_store(charges: &[Charge<'_>], source: DecisionSource) -> Decision {
    decision_of(charges, false, source, fresh_verdicts(charges))
}

fn fresh_verdicts(charges: &[Charge<'_>]) -> Verdicts {
    let fresh =
        |charge: &Charge<'_>| charge.rule().limit.probe_fresh(charge.cost(), Timestamp::ZERO);
    charges.iter().map(fresh).collect()
}
