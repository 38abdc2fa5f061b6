//! What a denial left: a smaller cost, or a larger limit with the same counter, may still take it, and
//! then whoever was denied waits longer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Fingerprint, Timestamp};

/// Watches the counters of remembered denials, until one of them lets a request pass. Each has one place.
/// Where somebody else is watched there, a denial is remembered without: for as long as it is believed,
/// the wait that it tells may be too short.
#[derive(Debug)]
pub(super) struct CounterWatches {
    /// Made when the first denial comes.
    watched: OnceLock<Box<[AtomicU64]>>,
    number: AtomicU64,
    /// When something was last taken, apart for each of many groups of counters.
    taken_at: Box<[AtomicU64]>,
}

/// A counter that is watched, since a certain time: most of its fingerprint, when that began, and a
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CounterWatch {
    counter: Fingerprint,
    mark: u64,
}

/// As many as denials are remembered: a power of two.
const PLACES: usize = 1 << 17;
/// A power of two. Few enough that all of them stay in a cache of the processor.
const GROUPS: usize = 1 << 13;
/// Of a mark: for the number, for the time in quarters of a second, and for both.
const NUMBER_BITS: u32 = 16;
const TIME_BITS: u32 = 8;
const LOW_BITS: u32 = NUMBER_BITS + TIME_BITS;
const QUARTER: u64 = 250_000;
/// For how many quarters of a second a denial is believed, and a bit.
const BELIEVED: u64 = 5;
/// Belongs to no counter: the top bit of a fingerprint's lower half is always set.
const NOBODY: u64 = 0;

impl CounterWatches {
    pub(super) fn new() -> Self {
        let taken_at = (0..GROUPS).map(|_| AtomicU64::new(0)).collect();
        Self { watched: OnceLock::new(), number: AtomicU64::new(0), taken_at }
    }

    /// Whether something was taken from a counter like this after that time.
    pub(super) fn was_taken_after(&self, counter: Fingerprint, time: Timestamp) -> bool {
        self.group(counter).load(Ordering::SeqCst) > time.as_micros()
    }

    /// From now on, or for as long as it has been watched already. `None` where another counter is.
    pub(super) fn watch(&self, counter: Fingerprint, now: Timestamp) -> Option<CounterWatch> {
        let places =
            self.watched.get_or_init(|| (0..PLACES).map(|_| AtomicU64::new(NOBODY)).collect());
        let place = &places[place(counter)];
        let known = place.load(Ordering::Acquire);
        let time = now.as_micros() / QUARTER;
        let age = time.wrapping_sub(known >> NUMBER_BITS) % (1 << TIME_BITS);
        let is_young = known != NOBODY && age <= BELIEVED;
        if is_young {
            return belongs_to(known, counter).then_some(CounterWatch { counter, mark: known });
        }
        let number = self.number.fetch_add(1, Ordering::Relaxed) % (1 << NUMBER_BITS);
        let low = ((time % (1 << TIME_BITS)) << NUMBER_BITS) | number;
        let mark = ((counter.low() >> LOW_BITS) << LOW_BITS) | low;
        place.store(mark, Ordering::SeqCst);
        Some(CounterWatch { counter, mark })
    }

    /// Whether nobody has taken anything since, as far as this instance knows.
    pub(super) fn is_untouched(&self, watch: CounterWatch) -> bool {
        self.place(watch.counter).is_some_and(|it| it.load(Ordering::Acquire) == watch.mark)
    }

    /// Something was taken, as was heard at this time. Nearly always nobody watches.
    ///
    /// Whoever takes leaves the time before it looks who watches, and whoever begins to watch does so
    /// before it looks at the time: at least one of them sees the other.
    pub(super) fn record_taken(&self, counter: Fingerprint, heard: Timestamp) {
        self.group(counter).fetch_max(heard.as_micros(), Ordering::SeqCst);
        if let Some(place) = self.place(counter)
            && belongs_to(place.load(Ordering::SeqCst), counter)
        {
            place.store(NOBODY, Ordering::Release);
        }
    }

    fn group(&self, counter: Fingerprint) -> &AtomicU64 {
        &self.taken_at[counter.low() as usize % GROUPS]
    }

    fn place(&self, counter: Fingerprint) -> Option<&AtomicU64> {
        self.watched.get().map(|places| &places[place(counter)])
    }
}

fn place(counter: Fingerprint) -> usize {
    counter.high() as usize % PLACES
}

fn belongs_to(mark: u64, counter: Fingerprint) -> bool {
    mark >> LOW_BITS == counter.low() >> LOW_BITS
}
