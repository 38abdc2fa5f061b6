//! Builds the embedded store from its bounds and a clock.

use crossbeam_utils::CachePadded;

use super::capacity::MemoryCapacity;
use super::overflow::OverflowCounters;
use super::{MemoryStore, bounds};
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
    max_memory: Option<u64>,
    max_keys: Option<usize>,
    max_log_bytes: Option<usize>,
    shards: usize,
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            clock: SystemClock::new(),
            max_memory: None,
            max_keys: None,
            max_log_bytes: None,
            shards: cores.saturating_mul(SHARDS_PER_CORE),
        }
    }
}

impl<C: Clock> MemoryStoreBuilder<C> {
    /// The most memory for its counters, in bytes. A quarter of it is for sliding logs; the rest is for
    /// keys, at 96 bytes each. Defaults, for each store, to half of the memory that this process can use:
    /// the machine's, or its control group's if that is less.
    ///
    /// ```
    /// use tidegate::MemoryStore;
    ///
    /// let store = MemoryStore::builder().max_memory(64 << 20).build();
    /// assert!(store.stats().max_bytes <= 64 << 20);
    /// ```
    pub fn max_memory(self, bytes: u64) -> Self {
        Self { max_memory: Some(bytes), ..self }
    }

    /// The most keys it can hold. Defaults to as many as fit into its memory; if both are set, the
    /// smaller number counts. One limit alone gets seven tenths of them. See [`MemoryStore`] for what
    /// happens when there is no room.
    ///
    /// ```
    /// use tidegate::MemoryStore;
    ///
    /// let store = MemoryStore::builder().max_keys(10_000).build();
    /// assert_eq!(store.stats().max_keys, 10_000);
    /// ```
    pub fn max_keys(self, max_keys: usize) -> Self {
        Self { max_keys: Some(max_keys), ..self }
    }

    /// The memory for sliding logs besides their slots. Defaults to a quarter of the store's memory.
    /// Beyond that they remember time less precisely, to a 64th of their window, and err on the strict
    /// side. At twice as much, new logs share counters; existing logs can still grow to half a kilobyte
    /// each.
    pub fn max_log_bytes(self, max_log_bytes: usize) -> Self {
        Self { max_log_bytes: Some(max_log_bytes), ..self }
    }

    /// How many locks the keys are spread over, rounded up to a power of two. Defaults to enough
    /// for this machine's cores.
    ///
    /// More shards mean less waiting between threads and slightly more memory. A small store has fewer than were
    /// asked for, since each shard needs enough keys to find dead ones among them.
    pub fn shards(self, shards: usize) -> Self {
        Self { shards, ..self }
    }

    /// Uses another clock.
    ///
    /// The store reads it once for each settlement. See [`ManualClock`](crate::ManualClock) for tests.
    ///
    /// ```
    /// use tidegate::{Clock, ManualClock, MemoryStore, Timestamp};
    ///
    /// let clock = ManualClock::at(Timestamp::from_secs(60));
    /// let store = MemoryStore::builder().clock(clock).build();
    /// assert_eq!(store.clock().now(), Timestamp::from_secs(60));
    /// ```
    pub fn clock<D: Clock>(self, clock: D) -> MemoryStoreBuilder<D> {
        let Self { max_memory, max_keys, max_log_bytes, shards, .. } = self;
        MemoryStoreBuilder { clock, max_memory, max_keys, max_log_bytes, shards }
    }

    /// Builds the store.
    ///
    /// It allocates little: tables grow with the keys that arrive.
    pub fn build(self) -> MemoryStore<C> {
        let (max_keys, max_log_bytes) = self.bounds();
        // A shard of a full store should hold enough keys for a new one to find dead ones among
        // them.
        let most = (max_keys / KEYS_PER_SHARD).clamp(1, MOST_SHARDS);
        let shards = self.shards.clamp(1, most).next_power_of_two();
        MemoryStore {
            clock: self.clock,
            shards: (0..shards).map(|_| CachePadded::new(Mutex::default())).collect(),
            signposts: (0..shards).map(|_| CachePadded::default()).collect(),
            overflow: OverflowCounters::new(max_keys, max_log_bytes),
            capacity: MemoryCapacity::new(max_keys, max_log_bytes),
            hand: AtomicUsize::new(0),
            settings: Mutex::default(),
        }
    }

    /// The most keys, and the most bytes of logs.
    fn bounds(&self) -> (usize, usize) {
        let (fitting, logs) = bounds::split(self.max_memory.unwrap_or_else(bounds::default_bytes));
        let keys = match (self.max_keys, self.max_memory) {
            (Some(keys), None) => keys,
            (Some(keys), Some(_)) => keys.min(fitting),
            (None, _) => fitting,
        };
        (keys, self.max_log_bytes.unwrap_or(logs))
    }
}

/// Two threads on different cores then contend for a lock in one of 64 decisions, and hold it for less
/// than the time of a decision.
const SHARDS_PER_CORE: usize = 64;
const MOST_SHARDS: usize = 4_096;
const KEYS_PER_SHARD: usize = 64;
