//! Requests whose outcome is known before anybody is asked.

use tidegate_core::{Charge, Timestamp};
use tidegate_store::Verdicts;

use super::decided;
use crate::{Decision, Source};

/// What is known of a request before anybody is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hope {
    Some,
    /// A limit lets nothing pass, or less than this costs. Only the store knows what is left of the
    /// others, or of that one.
    None,
    /// All limits let nothing pass, so that nothing is to be known: a block list stays closed whatever
    /// fails.
    Closed,
}

impl Hope {
    pub(super) fn of(charges: &[Charge<'_>]) -> Self {
        let capacity = |charge: &Charge<'_>| charge.rule().limit.capacity();
        let never =
            |charge: &&Charge<'_>| capacity(charge) == 0 || charge.cost().get() > capacity(charge);
        let mut enforced = charges.iter().filter(|charge| charge.rule().enforced);
        if !enforced.any(|charge| never(&charge)) {
            Self::Some
        } else if charges.iter().all(|charge| capacity(charge) == 0) {
            Self::Closed
        } else {
            Self::None
        }
    }
}

/// Without a look at any counter.
pub(crate) fn denied_unasked(charges: &[Charge<'_>], source: Source) -> Decision {
    decided(charges, false, source, fresh(charges))
}

fn fresh(charges: &[Charge<'_>]) -> Verdicts {
    let fresh =
        |charge: &Charge<'_>| charge.rule().limit.probe_fresh(charge.cost(), Timestamp::ZERO);
    charges.iter().map(fresh).collect()
}
