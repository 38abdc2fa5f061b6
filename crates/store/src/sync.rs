//! The locks and atomics of the shards, which tests replace by those of the shuttle scheduler.
//!
//! With `--cfg shuttle` every lock and every atomic is a point where the shuttle scheduler can
//! switch threads, and the tests in `tests/shuttle.rs` explore the interleavings.

#[cfg(not(shuttle))]
mod real {
    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
}

#[cfg(shuttle)]
mod real {
    pub(crate) use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::sync::atomic::{AtomicUsize, Ordering};

    /// Shuttle's mutex with parking_lot's signature: a poisoned lock is still a lock.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}

pub(crate) use real::*;
