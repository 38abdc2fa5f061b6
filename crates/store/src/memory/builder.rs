//! The embedded store's bounds.

use crossbeam_utils::CachePadded;

use super::MemoryStore;
use super::capacity::Capacity;
use crate::sync::{AtomicUsize, Mutex};
use crate::{Clock, SystemClock};

/// Builds a [`MemoryStore`].
///
/// ```
/// use tidegate::MemoryStore;
///
/// let store = MemoryStore::builder().max_keys(100_000).max_log_bytes(32 << 20).build();
/// assert_eq!(store.stats().keys, 0);
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct MemoryStoreBuilder<C = SystemClock> {
    clock: C,
    max_keys: usize,
    max_log_bytes: usize,
    shards: usize,
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            clock: SystemClock::new(),
            max_keys: 1_000_000,
            max_log_bytes: 256 << 20,
            shards: cores.saturating_mul(SHARDS_PER_CORE),
        }
    }
}

impl<C: Clock> MemoryStoreBuilder<C> {
    /// The most keys it may hold. Defaults to one million. See [`MemoryStore`] for what happens
    /// when it is full.
    pub fn max_keys(self, max_keys: usize) -> Self {
        Self { max_keys, ..self }
    }

    /// The memory that sliding logs may use besides their slots. Defaults to 256 MiB. Beyond that
    /// they remember time less finely, to a 64th of their window, and err on the strict side.
    pub fn max_log_bytes(self, max_log_bytes: usize) -> Self {
        Self { max_log_bytes, ..self }
    }

    /// How many locks the keys are spread over, rounded up to a power of two. Defaults to enough
    /// for this machine's cores.
    pub fn shards(self, shards: usize) -> Self {
        Self { shards, ..self }
    }

    /// Uses another clock.
    pub fn clock<D: Clock>(self, clock: D) -> MemoryStoreBuilder<D> {
        let Self { max_keys, max_log_bytes, shards, .. } = self;
        MemoryStoreBuilder { clock, max_keys, max_log_bytes, shards }
    }

    /// Builds the store.
    pub fn build(self) -> MemoryStore<C> {
        // A shard of a full store should hold enough keys for a new one to find dead ones among
        // them.
        let most = (self.max_keys / KEYS_PER_SHARD).clamp(1, MOST_SHARDS);
        let shards = self.shards.clamp(1, most).next_power_of_two();
        MemoryStore {
            clock: self.clock,
            shards: (0..shards).map(|_| CachePadded::new(Mutex::default())).collect(),
            signposts: (0..shards).map(|_| CachePadded::default()).collect(),
            overflow: Mutex::default(),
            capacity: Capacity::new(self.max_keys, self.max_log_bytes),
            overflow_capacity: Capacity::new(OVERFLOW_LIMITS, self.max_log_bytes),
            hand: AtomicUsize::new(0),
            board: Mutex::default(),
        }
    }
}

/// Two threads on different cores then meet at one lock in one of 64 decisions, and hold it for
/// less than a decision.
const SHARDS_PER_CORE: usize = 64;
const MOST_SHARDS: usize = 4_096;
const KEYS_PER_SHARD: usize = 64;

/// Limits that may have a shared counter while the store is full. Limits come from configuration,
/// but a protocol may let callers bring their own.
const OVERFLOW_LIMITS: usize = 1_024;
