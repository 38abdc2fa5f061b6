//! What a denial left: a smaller cost, or a larger limit with the same counter, may still take it, and
//! then whoever was denied waits longer.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Fingerprint;

/// Watches the counters of remembered denials, until one of them lets a request pass. Each has one place,
/// and whoever comes next at that place takes it over: then the denial is not believed either.
#[derive(Debug)]
pub(super) struct Leftovers {
    watched: Box<[AtomicU64]>,
    generation: AtomicU64,
}

/// A counter that is watched, since a certain time: most of its fingerprint, and a number below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    counter: Fingerprint,
    mark: u64,
}

/// As many as denials are remembered: a power of two.
const PLACES: usize = 1 << 17;
/// Of a mark, for the number.
const NUMBER_BITS: u32 = 24;
/// Belongs to no counter: the top bit of a fingerprint's lower half is always set.
const NOBODY: u64 = 0;

impl Leftovers {
    pub(super) fn new() -> Self {
        let watched = (0..PLACES).map(|_| AtomicU64::new(NOBODY)).collect();
        Self { watched, generation: AtomicU64::new(0) }
    }

    /// From now on, or for as long as it has been watched already.
    pub(super) fn watch(&self, counter: Fingerprint) -> Watch {
        let place = self.place(counter);
        let known = place.load(Ordering::Acquire);
        if belongs_to(known, counter) {
            return Watch { counter, mark: known };
        }
        let number = self.generation.fetch_add(1, Ordering::Relaxed) % (1 << NUMBER_BITS);
        let mark = counter.low() >> NUMBER_BITS << NUMBER_BITS | number;
        place.store(mark, Ordering::Release);
        Watch { counter, mark }
    }

    /// Whether nobody has taken anything since, as far as this instance knows.
    pub(super) fn is_untouched(&self, watch: Watch) -> bool {
        self.place(watch.counter).load(Ordering::Acquire) == watch.mark
    }

    /// Something was taken. Nearly always nobody watches, and nothing is written.
    pub(super) fn take(&self, counter: Fingerprint) {
        let place = self.place(counter);
        if belongs_to(place.load(Ordering::Acquire), counter) {
            place.store(NOBODY, Ordering::Release);
        }
    }

    fn place(&self, counter: Fingerprint) -> &AtomicU64 {
        &self.watched[counter.high() as usize % PLACES]
    }
}

fn belongs_to(mark: u64, counter: Fingerprint) -> bool {
    mark >> NUMBER_BITS == counter.low() >> NUMBER_BITS
}
