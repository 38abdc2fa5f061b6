//! What only a plan's limiter needs: its share of the limits can change, and blocks use the deny cache.

use tidegate_core::Charge;
use tidegate_store::{Store, Verdicts};

use super::Decider;
use crate::deny_cache::DenyCacheMoment;
use crate::fallback::FallbackStore;
use crate::store_event::StoreObserver;

impl<S: Store> Decider<S> {
    pub(crate) fn with_nodes(self, nodes: u32) -> Self {
        Self { fallback: FallbackStore::new(nodes), ..self }
    }

    /// Reports the store's outages to this observer.
    pub(crate) fn observed_by(self, observer: StoreObserver) -> Self {
        Self { outage: self.outage.observed_by(observer), ..self }
    }

    /// From now on this is instance `number` of `nodes`, counted from zero.
    pub(crate) fn set_share(&self, nodes: u32, number: u32) {
        self.fallback.set_share(nodes, number);
    }

    /// The verdicts, if these charges are known to be denied; and the moment, for
    /// [`remember`](Self::remember).
    pub(crate) fn recall(
        &self,
        charges: &[Charge<'_>],
    ) -> Option<(Option<Verdicts>, DenyCacheMoment)> {
        let denials = self.denials.as_ref()?;
        let now = denials.moment(charges);
        Some((denials.recall(charges, now), now))
    }

    /// Remembers a denial that was composed outside, such as by a block.
    pub(crate) fn remember(
        &self,
        charges: &[Charge<'_>],
        verdicts: &Verdicts,
        moment: DenyCacheMoment,
    ) {
        if let Some(denials) = &self.denials {
            denials.remember(charges, verdicts, moment);
        }
    }

    /// Forgets all denials: another instance gave units back, or a limit changed.
    pub(crate) fn forget_denials(&self) {
        if let Some(denials) = &self.denials {
            denials.forget_all();
        }
    }
}
