//! A store for each worker, so that its connections are driven where its decisions are made.

use tidegate::{Charge, Store, StoreError, Verdicts};

use crate::worker;

/// Many stores that keep their counters in one place, such as connections to one Redis: each
/// worker has its own, and everybody else shares the first.
///
/// ```
/// use tidegate_server::PerWorker;
/// use tidegate::MemoryStore;
///
/// let stores = PerWorker::new(2, MemoryStore::new);
/// assert_eq!(stores.each().count(), 3);
/// ```
#[derive(Debug)]
pub struct PerWorker<S> {
    others: S,
    workers: Vec<S>,
}

impl<S> PerWorker<S> {
    /// One for each worker, and one for everybody else.
    pub fn new(workers: usize, make: impl Fn() -> S) -> Self {
        Self { others: make(), workers: (0..workers).map(|_| make()).collect() }
    }

    /// The one of whoever asks.
    pub fn own(&self) -> &S {
        worker::current().and_then(|number| self.workers.get(number)).unwrap_or(&self.others)
    }

    /// All of them.
    pub fn each(&self) -> impl Iterator<Item = &S> {
        std::iter::once(&self.others).chain(&self.workers)
    }
}

impl<S: Store> Store for PerWorker<S> {
    async fn settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Result<bool, StoreError> {
        self.own().settle(charges, out).await
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
}
