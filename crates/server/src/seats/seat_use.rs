//! What a connection does with its seat, told without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the room has to know of a connection's requests. Shared by the connection and the room.
#[derive(Clone, Debug, Default)]
pub struct SeatUse(Arc<SeatFlags>);

#[derive(Debug, Default)]
struct SeatFlags {
    is_served: AtomicBool,
    was_denied: AtomicBool,
}

impl SeatUse {
    /// A whole request has come, and is answered.
    pub fn mark_served(&self) {
        // Nearly always nothing changes, and nothing is written.
        if !self.is_served() {
            self.0.is_served.store(true, Ordering::Relaxed);
        }
    }

    /// The last answer was a denial, or was not.
    pub fn set_denied(&self, was_denied: bool) {
        if self.is_denied() != was_denied {
            self.0.was_denied.store(was_denied, Ordering::Relaxed);
        }
    }

    /// The next request has not come yet.
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
