//! The usage of recent counters as of the store's last answers.

use parking_lot::Mutex;
use tidegate_core::{Fingerprint, Limit, Timestamp};

/// How much of each counter was used by the store's last answer. Each counter has one slot, and a later
/// counter with the same slot replaces it, so that the memory is bounded.
#[derive(Debug, Default)]
pub(super) struct LastKnownUsage {
    shards: [Mutex<UsageSlots>; SHARDS],
}

/// The slots of one shard, allocated on first use.
#[derive(Debug, Default)]
struct UsageSlots(Box<[CounterUsage]>);

/// The used units of a counter, and when all of them expire.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterUsage {
    pub(super) counter: Fingerprint,
    pub(super) used: u64,
    pub(super) full_at: Timestamp,
    /// Whether the fallback's continued counter started from it already.
    pub(super) is_followed: bool,
}

impl LastKnownUsage {
    /// Replaces what was known of this counter.
    pub(super) fn record(&self, usage: CounterUsage) {
        *self.shard(usage.counter).lock().slot(usage.counter) = usage;
    }

    pub(super) fn forget(&self, counter: Fingerprint) {
        self.update_known(counter, |usage| *usage = CounterUsage::NONE);
    }

    /// Calls `act` with the usage of a counter, if it is known, under the shard's lock.
    pub(super) fn update_known(&self, counter: Fingerprint, act: impl FnOnce(&mut CounterUsage)) {
        let mut slots = self.shard(counter).lock();
        let slot = slots.slot(counter);
        if slot.counter == counter {
            act(slot);
        }
    }

    fn shard(&self, counter: Fingerprint) -> &Mutex<UsageSlots> {
        &self.shards[counter.low() as usize % SHARDS]
    }
}

impl UsageSlots {
    fn slot(&mut self, counter: Fingerprint) -> &mut CounterUsage {
        if self.0.is_empty() {
            self.0 = vec![CounterUsage::NONE; SLOTS].into();
        }
        &mut self.0[counter.high() as usize % SLOTS]
    }
}

impl CounterUsage {
    pub(super) const NONE: Self =
        Self { counter: Fingerprint::NONE, used: 0, full_at: Timestamp::ZERO, is_followed: false };

    /// The units that still count as used at `now`.
    pub(super) fn used_at(self, now: Timestamp, limit: &Limit) -> u64 {
        limit.used_until(self.used, self.full_at.since(now))
    }
}

/// Several shards, because every answer of the store takes a lock.
const SHARDS: usize = 16;
/// The slots of each shard: a power of two.
const SLOTS: usize = (1 << 17) / SHARDS;
