//! What the store said last.

use parking_lot::Mutex;
use tidegate_core::{Fingerprint, Limit, Timestamp};

/// How much of each key's limit was used when the store last said so, for the keys that came last: each
/// has one place, and whoever comes next at that place takes it over.
#[derive(Debug, Default)]
pub(super) struct LastKnownUsage {
    shards: [Mutex<UsageSlots>; SHARDS],
}

/// Made when the first one comes.
#[derive(Debug, Default)]
struct UsageSlots(Box<[CounterUsage]>);

/// What was used of a counter, and when nothing of it matters any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterUsage {
    pub(super) counter: Fingerprint,
    pub(super) used: u64,
    pub(super) full_at: Timestamp,
    /// Whether the stand-in goes by it already.
    pub(super) is_followed: bool,
}

impl LastKnownUsage {
    /// In place of what was known of this counter.
    pub(super) fn record(&self, seen: CounterUsage) {
        *self.shard(seen.counter).lock().place(seen.counter) = seen;
    }

    pub(super) fn forget(&self, counter: Fingerprint) {
        self.update_known(counter, |seen| *seen = CounterUsage::NONE);
    }

    /// Does something with what is known of a counter, while nobody else does.
    pub(super) fn update_known(&self, counter: Fingerprint, act: impl FnOnce(&mut CounterUsage)) {
        let mut places = self.shard(counter).lock();
        let place = places.place(counter);
        if place.counter == counter {
            act(place);
        }
    }

    fn shard(&self, counter: Fingerprint) -> &Mutex<UsageSlots> {
        &self.shards[counter.low() as usize % SHARDS]
    }
}

impl UsageSlots {
    fn place(&mut self, counter: Fingerprint) -> &mut CounterUsage {
        if self.0.is_empty() {
            self.0 = vec![CounterUsage::NONE; PLACES].into();
        }
        &mut self.0[counter.high() as usize % PLACES]
    }
}

impl CounterUsage {
    pub(super) const NONE: Self =
        Self { counter: Fingerprint::NONE, used: 0, full_at: Timestamp::ZERO, is_followed: false };

    /// What is left of it by now. A bucket has filled up since, as fast as it does; of others it is
    /// known only when all of it is over.
    pub(super) fn used_at(self, now: Timestamp, limit: &Limit) -> u64 {
        let left = self.full_at.since(now).as_micros();
        let Limit::TokenBucket(_) = limit else { return if left > 0 { self.used } else { 0 } };
        let (units, window) = (limit.quota().limit(), limit.quota().window().as_micros());
        let owed = u128::from(left) * u128::from(units);
        let owed = owed.div_ceil(u128::from(window.max(1)));
        self.used.min(u64::try_from(owed).unwrap_or(u64::MAX))
    }
}

/// So that workers seldom wait for one another: each decision of the store is noted.
const SHARDS: usize = 16;
/// Keys whose use may be known in each shard: a power of two.
const PLACES: usize = (1 << 17) / SHARDS;
