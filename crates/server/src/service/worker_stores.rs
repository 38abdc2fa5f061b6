//! A store for each worker, so that its connections are driven where its decisions are made.

use tidegate::{
    Charge, SettingEntry, SettingsSnapshot, SharedSettings, Span, Store, StoreError, StoreUsage,
    Verdicts,
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
    async fn settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Result<bool, StoreError> {
        self.own().settle(charges, out).await
    }

    async fn settle_within(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
        patience: Span,
    ) -> Result<bool, StoreError> {
        self.own().settle_within(charges, out, patience).await
    }

    fn is_stepwise(&self) -> bool {
        self.others.is_stepwise()
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.own().refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.own().reset(charge).await
    }

    fn shared_secret(&self) -> Option<[u8; 16]> {
        self.others.shared_secret()
    }

    fn names_keys(&self) -> bool {
        self.others.names_keys()
    }

    fn set_deadline(&self, longest: Span) {
        self.each().for_each(|store| store.set_deadline(longest));
    }

    /// Whether all stores are available: one open breaker is worth an operator's attention.
    fn is_available(&self) -> bool {
        self.each().all(Store::is_available)
    }

    /// The shortest of all: a busy worker's measurement includes time that is not the store's.
    fn round_trip(&self) -> Option<Span> {
        self.each().filter_map(Store::round_trip).min()
    }

    async fn usage(&self) -> Result<StoreUsage, StoreError> {
        self.own().usage().await
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
