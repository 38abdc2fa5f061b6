//! Settles charges: what a [`Store`] does, in terms of requests to Redis.

use std::time::Duration;

use tidegate_core::{Charge, Span};
use tidegate_store::{
    Promise, SettleResult, Store, StoreError, StoreHealth, StoreProfile, StoreUsage, Verdicts,
};

use crate::RedisStore;
use crate::batch::RedisRequest;
use crate::charge_placement;
use crate::charge_placement::ChargePlacement::{self, Apart, Together};
use crate::warm_up::require_runtime;

impl Store for RedisStore {
    fn profile(&self) -> StoreProfile {
        StoreProfile {
            shared_secret: Some(self.secret),
            is_stepwise: self.dispatcher.is_cluster() || self.naming.has_shared_keys(),
            names_keys: self.naming.has_format(),
        }
    }

    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        deadline: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        let patience = deadline.map_or(Duration::MAX, Duration::from).min(self.deadline());
        Promise::Later(self.request_verdicts(charges, out, patience))
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        require_runtime()?;
        let request = RedisRequest::Refund(Box::new(self.naming.item(charge)?));
        self.for_caller().ask(request, self.deadline()).await.map(|_| ())
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        require_runtime()?;
        let request = RedisRequest::Reset(Box::new(self.naming.item(charge)?));
        self.for_caller().ask(request, self.deadline()).await.map(|_| ())
    }

    fn set_deadline(&self, longest: Span) {
        self.deadline.set(longest.into());
    }

    fn health(&self) -> StoreHealth {
        let queues = self.queues.iter().chain(&self.shared_key_queues);
        let usual = queues.map(|queue| queue.usual_round_trip()).filter(|usual| !usual.is_zero());
        let round_trip = usual.min().map(|usual| Span::from_micros(usual.as_micros() as u64));
        StoreHealth { is_available: self.is_available(), round_trip }
    }

    async fn usage(&self) -> Result<StoreUsage, StoreError> {
        self.dispatcher.usage().await
    }
}

impl RedisStore {
    async fn request_verdicts(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
        patience: Duration,
    ) -> SettleResult {
        require_runtime()?;
        let store = self.for_caller();
        let joined = match charges {
            [charge] => store.join_identical(charge, patience),
            _ => None,
        };
        let timed_answer = match joined {
            Some(timed_answer) => timed_answer,
            None => match store.place_charges(charges)? {
                None => return Ok(true),
                Some(Together(items)) => store.ask(RedisRequest::Settle(items), patience),
                Some(Apart(groups)) => {
                    return Box::pin(store.ask_stepwise(groups, out, patience)).await;
                }
            },
        };
        let (passes, verdicts) = timed_answer.await?;
        append_verdicts(verdicts, out);
        Ok(passes)
    }

    /// How the charges are grouped into requests; `None` if there are none.
    fn place_charges(&self, charges: &[Charge<'_>]) -> Result<Option<ChargePlacement>, StoreError> {
        let items = self.naming.items(charges)?;
        let is_cluster = self.dispatcher.is_cluster();
        Ok(match items.len() {
            0 => None,
            1 => Some(Together(items)),
            _ if is_cluster || charge_placement::are_mixed(&items) => {
                Some(charge_placement::group_charges(items, is_cluster))
            }
            _ => Some(Together(items)),
        })
    }
}

/// Appends verdicts. `out` is nearly always empty, and then nothing is copied.
fn append_verdicts(verdicts: Verdicts, out: &mut Verdicts) {
    if out.is_empty() {
        *out = verdicts;
    } else {
        out.extend(verdicts);
    }
}
