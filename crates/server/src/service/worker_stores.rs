//! A store for each worker, so that its connections are driven where its decisions are made.

use tidegate::{
    Charge, Promise, Rule, SettingEntry, SettingsSnapshot, SettleResult, SharedSettings, Span,
    Store, StoreError, StoreHealth, StoreProfile, StoreUsage, Verdict, Verdicts,
};

use crate::net::worker;

/// Several stores over the same counters, such as connections to one Redis: each worker has its own
/// store, and all other threads share one.
///
/// ```
/// use tidegate_server::WorkerStores;
/// use tidegate::MemoryStore;
///
/// let stores = WorkerStores::new(2, MemoryStore::new);
/// assert_eq!(stores.each().count(), 3);
/// ```
#[derive(Debug)]
pub struct WorkerStores<S> {
    others: S,
    workers: Vec<S>,
}

impl<S> WorkerStores<S> {
    /// Makes a store for each worker, and one for all other threads.
    pub fn new(workers: usize, make: impl Fn() -> S) -> Self {
        Self { others: make(), workers: (0..workers).map(|_| make()).collect() }
    }

    /// The store of the calling thread.
    pub fn own(&self) -> &S {
        worker::current().and_then(|number| self.workers.get(number)).unwrap_or(&self.others)
    }

    /// All stores.
    pub fn each(&self) -> impl Iterator<Item = &S> {
        std::iter::once(&self.others).chain(&self.workers)
    }
}

impl<S: Store> Store for WorkerStores<S> {
    fn profile(&self) -> StoreProfile {
        self.others.profile()
    }

    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        deadline: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        self.own().settle(charges, deadline, out)
    }

    fn settle_each<'c>(
        &self,
        charges: impl IntoIterator<Item = Charge<'c>>,
        report: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        self.own().settle_each(charges, report)
    }

    fn refund(&self, charge: &Charge<'_>) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.own().refund(charge)
    }

    fn reset(&self, charge: &Charge<'_>) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.own().reset(charge)
    }

    fn set_deadline(&self, longest: Span) {
        self.each().for_each(|store| store.set_deadline(longest));
    }

    /// Available if all stores are: one open breaker is worth an operator's attention. The round trip is
    /// the shortest of all: a busy worker's measurement includes time that is not the store's.
    fn health(&self) -> StoreHealth {
        let each = || self.each().map(Store::health);
        StoreHealth {
            is_available: each().all(|health| health.is_available),
            round_trip: each().filter_map(|health| health.round_trip).min(),
        }
    }

    fn usage(&self) -> impl Future<Output = Result<StoreUsage, StoreError>> + Send {
        self.own().usage()
    }

    /// Of all stores together: each has counters of its own if none is shared.
    fn overflowed_of(&self, rule: &Rule) -> Option<u64> {
        self.each().filter_map(|store| store.overflowed_of(rule)).reduce(u64::saturating_add)
    }
}

impl<S: SharedSettings> SharedSettings for WorkerStores<S> {
    async fn put_setting(&self, name: &str, text: &[u8], lasts: Span) -> Result<(), StoreError> {
        self.own().put_setting(name, text, lasts).await
    }

    async fn remove_setting(&self, name: &str) -> Result<bool, StoreError> {
        self.own().remove_setting(name).await
    }

    async fn read_settings(
        &self,
        known: Option<u64>,
    ) -> Result<Option<SettingsSnapshot>, StoreError> {
        self.own().read_settings(known).await
    }

    async fn register_instance(
        &self,
        name: &str,
        text: &[u8],
        lasts: Span,
    ) -> Result<Vec<SettingEntry>, StoreError> {
        self.own().register_instance(name, text, lasts).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_stores_of_workers_do_all_that_a_store_does() {
        tidegate_conformance::check_forwarding(|probe| WorkerStores::new(0, || Arc::clone(&probe)));
    }
}
