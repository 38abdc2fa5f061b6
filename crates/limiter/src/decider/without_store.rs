//! Decisions while the store does not answer.

use smallvec::SmallVec;
use tidegate_core::{Charge, Rule, Verdict};
use tidegate_policy::OnStoreError;
use tidegate_store::Store;

use super::Decider;
use super::feasibility::{Feasibility, denial_without_store};
use crate::fallback;
use crate::{Decision, DecisionSource};

impl<S: Store> Decider<S> {
    /// Decides while the store is unavailable: the only place that implements [`OnStoreError`]. Each
    /// policy has its own mode; a single closed one denies.
    #[cold]
    pub(crate) fn decide_without_store(
        &self,
        charges: &[Charge<'_>],
        mode: impl Fn(usize) -> OnStoreError,
    ) -> Decision {
        if Feasibility::of(charges) != Feasibility::Possible {
            return denial_without_store(charges, DecisionSource::Fallback);
        }
        let counts = |index: usize, wanted| {
            mode(index) == wanted && charges.get(index).is_some_and(|charge| charge.rule().enforced)
        };
        let closed = |index: &usize| counts(*index, OnStoreError::Closed);
        if (0..charges.len()).any(|index| closed(&index)) {
            let denying = (0..charges.len()).filter(closed);
            return Decision::unavailable(denying, fallback::RETRY_AFTER);
        }
        if !(0..charges.len()).any(|index| mode(index) == OnStoreError::Local) {
            return Decision::without_verdicts(true, DecisionSource::Fallback);
        }
        // Limits that fail open become shadow limits.
        let rule = |(index, charge): (usize, &Charge<'_>)| Rule {
            enforced: counts(index, OnStoreError::Local),
            ..*charge.rule()
        };
        let rules: SmallVec<[Rule; 4]> = charges.iter().enumerate().map(rule).collect();
        let local: SmallVec<[Charge<'_>; 4]> =
            charges.iter().zip(&rules).map(|(charge, rule)| charge.with_rule(rule)).collect();
        let now = self.now();
        Decision::of_charges(&local, DecisionSource::Fallback, |out| {
            let passes = self.fallback.settle(&local, now, out);
            let verdicts = out.iter_mut().enumerate();
            for (_, verdict) in verdicts.filter(|(index, _)| counts(*index, OnStoreError::Open)) {
                // A limit that fails open must not report a denial.
                *verdict = Verdict { allowed: true, retry_after: None, ..*verdict };
            }
            passes
        })
    }
}
