//! Requests whose outcome is known before anybody is asked.

use tidegate_core::{Charge, Timestamp};
use tidegate_store::Verdicts;

use super::decided;
use crate::{Decision, Source};

/// What is known of a request before anybody is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hope {
    Some,
    /// It costs more than a limit ever holds. Only the store knows what is left of that all the same.
    TooDear,
    /// A limit lets nothing pass: a block list stays closed whatever fails.
    Closed,
}

impl Hope {
    pub(super) fn of(charges: &[Charge<'_>]) -> Self {
        let enforced = || charges.iter().filter(|charge| charge.rule().enforced);
        let capacity = |charge: &Charge<'_>| charge.rule().limit.capacity();
        if enforced().any(|charge| capacity(charge) == 0) {
            Self::Closed
        } else if enforced().any(|charge| charge.cost().get() > capacity(charge)) {
            Self::TooDear
        } else {
            Self::Some
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
