//! A store that records which counters were charged.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tidegate::{
    Charge, Fingerprint, MemoryStore, Promise, SettleResult, Span, Store, StoreError, StoreProfile,
    Verdicts,
};

/// A recording store. It requires names, so that every charge has its policy and its caller.
#[derive(Default)]
pub(crate) struct Ledger {
    store: MemoryStore,
    charges: Mutex<Counted>,
}

/// The counter that each policy charged, and the name of the caller.
pub(crate) type Counted = BTreeMap<String, (Fingerprint, String)>;

impl Ledger {
    /// Takes the charges since the last call.
    pub(crate) fn take(&self) -> Counted {
        std::mem::take(&mut self.charges.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn record(&self, charges: &[Charge<'_>]) {
        let mut written = self.charges.lock().unwrap_or_else(PoisonError::into_inner);
        for charge in charges {
            let names = charge.names().expect("names for every charge").clone();
            let policy = names.limit.expect("a limit with a name");
            let caller = names.entity.expect("a caller with a name");
            written.insert(policy, (charge.counter(), caller));
        }
    }
}

impl Store for Ledger {
    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        deadline: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        self.record(charges);
        self.store.settle(charges, deadline, out)
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.store.refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.store.reset(charge).await
    }

    fn profile(&self) -> StoreProfile {
        StoreProfile { names_keys: true, ..StoreProfile::EMBEDDED }
    }
}
