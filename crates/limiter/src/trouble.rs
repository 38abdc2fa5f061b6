//! Whether the store answers, for those who look after it.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tidegate_store::StoreError;

/// The last failure of the store, until it answers again.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// Looked at by every decision, so that the good ones take no lock.
    exists: AtomicBool,
    what: Mutex<Option<String>>,
}

impl Trouble {
    /// The store failed.
    pub(crate) fn note(&self, error: &StoreError) {
        // While nobody asks it, that is all there is to hear; what it said first says more.
        let mut what = self.what.lock();
        if what.is_none() {
            *what = Some(error.to_string());
            self.exists.store(true, Ordering::Release);
        }
    }

    /// The store answered.
    pub(crate) fn is_over(&self) {
        if self.exists.load(Ordering::Acquire) {
            // Both under the lock: a failure in between must not be taken for noted.
            let mut what = self.what.lock();
            *what = None;
            self.exists.store(false, Ordering::Release);
        }
    }

    /// What is wrong, if anything is.
    pub(crate) fn what(&self) -> Option<String> {
        self.what.lock().clone()
    }
}
