//! Flags with which a connection reports, without a lock, what it does with its seat.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The state of a connection's requests, as far as evictions depend on it. Shared by the connection and
/// the seat table.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeatUse(Arc<SeatFlags>);

#[derive(Debug, Default)]
struct SeatFlags {
    is_served: AtomicBool,
    was_denied: AtomicBool,
}

impl SeatUse {
    /// Reports that a complete request has arrived and is being answered.
    pub(crate) fn mark_served(&self) {
        // Avoids the write, since the flag is nearly always set already.
        if !self.is_served() {
            self.0.is_served.store(true, Ordering::Relaxed);
        }
    }

    /// Reports whether the last answer was a denial.
    pub(crate) fn set_denied(&self, was_denied: bool) {
        if self.is_denied() != was_denied {
            self.0.was_denied.store(was_denied, Ordering::Relaxed);
        }
    }

    /// Marks that the next request has not arrived yet.
    pub(super) fn mark_waiting(&self) {
        self.0.is_served.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_served(&self) -> bool {
        self.0.is_served.load(Ordering::Relaxed)
    }

    pub(super) fn is_denied(&self) -> bool {
        self.0.was_denied.load(Ordering::Relaxed)
    }
}
