//! A decision that asks the store more than once.

use tidegate_core::{Charge, Span};
use tidegate_policy::{OnStoreError, Owed, PlannedPolicy};
use tidegate_store::{Stopwatch, Store};

use super::{PlanLimiter, terms_of};
use crate::gate::Terms;
use crate::{Decision, Source};

/// All steps of a decision share its deadline. Once the store has failed in one of them, it is not
/// asked in the next: its stand-in answers them all.
pub(super) struct Steps {
    watch: Stopwatch,
    is_store_away: bool,
}

impl Steps {
    pub(super) fn begin() -> Self {
        Self { watch: Stopwatch::start(), is_store_away: false }
    }

    /// For what must not be lost, even if the decision takes longer by it: as much time as there was
    /// in the beginning.
    pub(super) fn renew(&mut self) {
        self.watch = Stopwatch::start();
    }

    fn terms(&self, owed: &Owed<'_>) -> Terms {
        let terms = terms_of(owed);
        let spent = Span::from_micros(self.watch.nanos() / 1_000);
        Terms { deadline: terms.deadline.map(|deadline| deadline.minus(spent)), ..terms }
    }
}

impl<S: Store> PlanLimiter<S> {
    /// Decides in one step of `steps`. `mode` says what each charge's policy does without a store.
    pub(super) async fn step(
        &self,
        steps: &mut Steps,
        owed: &Owed<'_>,
        charges: &[Charge<'_>],
        mode: impl Fn(usize) -> OnStoreError + Send,
    ) -> Decision {
        if steps.is_store_away {
            return self.gate.without_store(charges, mode);
        }
        let decision = self.gate.settle(charges, steps.terms(owed), mode).await;
        steps.is_store_away = decision.source() == Source::Fallback;
        decision
    }
}

/// What the policy of a charge does without a store.
pub(super) fn mode_of(owed: &Owed<'_>, index: usize) -> OnStoreError {
    owed.policy(index).map_or(OnStoreError::default(), PlannedPolicy::on_store_error)
}
