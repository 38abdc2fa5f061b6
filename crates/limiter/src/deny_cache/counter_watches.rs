//! Watches the counters of cached denials: a request with a smaller cost, or under a larger limit with
//! the same counter, can still take units, and then the denied request has to wait longer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Fingerprint, Timestamp};

/// Watches the counters of cached denials until one of them admits a request. Each counter has one slot.
/// If another counter occupies the slot, the denial is cached unwatched: until it expires, its reported
/// wait can be too short.
#[derive(Debug)]
pub(super) struct CounterWatches {
    /// Created with the first denial.
    watched: OnceLock<Box<[AtomicU64]>>,
    number: AtomicU64,
    /// When units were last taken, separately for many groups of counters.
    taken_at: Box<[AtomicU64]>,
}

/// A watch on a counter. The mark combines most bits of the counter's fingerprint, the start time and a
/// serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CounterWatch {
    counter: Fingerprint,
    mark: u64,
}

/// As many slots as the cache holds denials: a power of two.
const SLOTS: usize = 1 << 17;
/// A power of two, small enough that all groups stay in the processor's cache.
const GROUPS: usize = 1 << 13;
/// The low bits of a mark: the serial number, the time in quarters of a second, and both together.
const NUMBER_BITS: u32 = 16;
const TIME_BITS: u32 = 8;
const LOW_BITS: u32 = NUMBER_BITS + TIME_BITS;
const QUARTER: u64 = 250_000;
/// The quarters of a second for which a denial is repeated, plus one for rounding.
const VALID_QUARTERS: u64 = 5;
/// The mark of a free slot. No counter has it: the top bit of a fingerprint's lower half is always set.
const FREE: u64 = 0;

impl CounterWatches {
    pub(super) fn new() -> Self {
        let taken_at = (0..GROUPS).map(|_| AtomicU64::new(0)).collect();
        Self { watched: OnceLock::new(), number: AtomicU64::new(0), taken_at }
    }

    /// Whether units were taken after this time from the counter, or from another of its group.
    pub(super) fn was_taken_after(&self, counter: Fingerprint, time: Timestamp) -> bool {
        self.group(counter).load(Ordering::SeqCst) > time.as_micros()
    }

    /// Watches a counter from now on, or joins an existing watch on it. `None` if another counter occupies
    /// the slot.
    pub(super) fn watch(&self, counter: Fingerprint, now: Timestamp) -> Option<CounterWatch> {
        let slots = self.watched.get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(FREE)).collect());
        let slot = &slots[slot(counter)];
        let known = slot.load(Ordering::Acquire);
        let time = now.as_micros() / QUARTER;
        let age = time.wrapping_sub(known >> NUMBER_BITS) % (1 << TIME_BITS);
        let is_young = known != FREE && age <= VALID_QUARTERS;
        if is_young {
            return belongs_to(known, counter).then_some(CounterWatch { counter, mark: known });
        }
        let number = self.number.fetch_add(1, Ordering::Relaxed) % (1 << NUMBER_BITS);
        let low = ((time % (1 << TIME_BITS)) << NUMBER_BITS) | number;
        let mark = ((counter.low() >> LOW_BITS) << LOW_BITS) | low;
        slot.store(mark, Ordering::SeqCst);
        Some(CounterWatch { counter, mark })
    }

    /// Whether no units were taken since the watch began, as far as this instance knows.
    pub(super) fn is_untouched(&self, watch: CounterWatch) -> bool {
        self.slot(watch.counter).is_some_and(|slot| slot.load(Ordering::Acquire) == watch.mark)
    }

    /// Records that units were taken, by an answer that arrived at `answered_at`. Ends a watch on the
    /// counter; there is rarely one.
    ///
    /// A taker stores the time before it reads the slot, and a watcher stores its mark before it reads the
    /// time: at least one of them sees the other.
    pub(super) fn record_taken(&self, counter: Fingerprint, answered_at: Timestamp) {
        self.group(counter).fetch_max(answered_at.as_micros(), Ordering::SeqCst);
        if let Some(slot) = self.slot(counter)
            && belongs_to(slot.load(Ordering::SeqCst), counter)
        {
            slot.store(FREE, Ordering::Release);
        }
    }

    fn group(&self, counter: Fingerprint) -> &AtomicU64 {
        &self.taken_at[counter.low() as usize % GROUPS]
    }

    fn slot(&self, counter: Fingerprint) -> Option<&AtomicU64> {
        self.watched.get().map(|slots| &slots[slot(counter)])
    }
}

fn slot(counter: Fingerprint) -> usize {
    counter.high() as usize % SLOTS
}

fn belongs_to(mark: u64, counter: Fingerprint) -> bool {
    mark >> LOW_BITS == counter.low() >> LOW_BITS
}
