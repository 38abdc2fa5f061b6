//! Our own store, in a neighbour's key format.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Charge, ChargeNames, Cost, Fingerprint, Limit, Rule, Timestamp, Verdict};
use tidegate_store::{Store, StoreError, Verdicts};
use tidegate_store_redis::{KeyFormat, RedisConfig, RedisStore, RedisStoreBuilder};
use tokio::runtime::Runtime;

use crate::other_limiters::Kind;

/// A store with one rule, and the user that it counts.
#[derive(Clone)]
pub(crate) struct Ours {
    runtime: Arc<Runtime>,
    pub(crate) store: Arc<RedisStore>,
    pub(crate) rule: Rule,
    names: ChargeNames,
}

impl Ours {
    /// Ours, in the style of a neighbour.
    pub(crate) fn like(kind: Kind, user: &str, quota: &str) -> Self {
        Self::new(&crate::REDIS.url(), kind.template(), limit(kind.algorithm(), quota), user, false)
    }

    /// The same, with a clock of our own.
    pub(crate) fn like_at(kind: Kind, user: &str, quota: &str) -> Self {
        Self::new(&crate::REDIS.url(), kind.template(), limit(kind.algorithm(), quota), user, true)
    }

    pub(crate) fn new(url: &str, template: &str, limit: Limit, user: &str, in_hand: bool) -> Self {
        let format: KeyFormat = template.parse().unwrap();
        let builder = builder(url).key_format(format).unwrap();
        let builder = if in_hand { builder.manual_clock() } else { builder };
        let id = Fingerprint::new(9, 9);
        let rule = Rule { id, limit, enforced: true, staggered: true };
        let (runtime, store) = (Arc::new(Runtime::new().unwrap()), Arc::new(builder.build()));
        Self { runtime, store, rule, names: ChargeNames::new(user, "login") }
    }

    /// The same through another store.
    pub(crate) fn through(self, store: RedisStoreBuilder) -> Self {
        Self { store: Arc::new(store.build()), ..self }
    }

    pub(crate) fn set_now(&self, micros: u64) {
        self.store.set_now(Timestamp::from_micros(micros));
    }

    pub(crate) fn charge(&self, cost: u64) -> Charge<'_> {
        let charge = Charge::new(Fingerprint::new(5, 5), Cost::new(cost).unwrap(), &self.rule);
        charge.with_names(&self.names)
    }

    pub(crate) fn try_settle(
        &self,
        charges: &[Charge<'_>],
    ) -> Result<(bool, Verdicts), StoreError> {
        let mut verdicts = Verdicts::new();
        let passes =
            self.runtime.block_on(self.store.settle(charges, None, &mut verdicts).into_future())?;
        Ok((passes, verdicts))
    }

    pub(crate) fn take(&self, cost: u64) -> Verdict {
        let (passes, verdicts) = self.try_settle(&[self.charge(cost)]).unwrap();
        assert_eq!(passes, verdicts[0].allowed);
        verdicts[0]
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.take(0).remaining
    }

    pub(crate) fn refund(&self, amount: u64) {
        self.runtime.block_on(self.store.refund(&self.charge(amount))).unwrap();
    }

    pub(crate) fn reset(&self) {
        self.runtime.block_on(self.store.reset(&self.charge(0))).unwrap();
    }
}

pub(crate) fn limit(algorithm: &str, quota: &str) -> Limit {
    Limit::new(algorithm.parse().unwrap(), &quota.parse().unwrap()).unwrap()
}

/// A store that waits for a slow machine.
pub(crate) fn builder(url: &str) -> RedisStoreBuilder {
    let config: RedisConfig = url.parse().unwrap();
    RedisStore::builder(config).deadline(Duration::from_secs(20))
}
