//! The counters that new keys share while there is no room for them.

use std::sync::atomic::AtomicU64;

use tidegate_core::{Charge, Cost, Fingerprint, Timestamp};

use super::capacity::MemoryCapacity;
use super::shard::MemoryShard;
use super::table::TableUpkeep;
use super::table_account::ChargeContext;
use crate::Clock;
use crate::sync::{Mutex, MutexGuard, Ordering};

/// Shared counters, called cells. A limit has many cells, and a key always belongs to the same one, so a
/// new key that finds no room shares a counter with a few others.
///
/// A cell counts what all of its keys take, so none of them gets more than its limit. A key that
/// finds room later starts with the count of its cell: see [`OverflowCells::hand_over`].
#[derive(Debug)]
pub(super) struct OverflowCounters {
    /// Locked after every other shard.
    shard: Mutex<MemoryShard>,
    capacity: MemoryCapacity,
    /// Cells of a limit: a power of two.
    cells: u64,
    /// Charges that went to a cell, by pool.
    counts: Box<[AtomicU64]>,
}

/// The cells, locked.
pub(super) struct OverflowCells<'a> {
    shard: MutexGuard<'a, MemoryShard>,
    overflow: &'a OverflowCounters,
    time: Timestamp,
}

impl OverflowCounters {
    /// The cells for a store of `max_keys` keys.
    pub(super) fn new(max_keys: usize, max_log_bytes: usize) -> Self {
        let most = Self::most_cells(max_keys);
        Self {
            shard: Mutex::default(),
            capacity: MemoryCapacity::new(most, max_log_bytes),
            cells: 1 << (most / RULES).ilog2(),
            counts: (0..Fingerprint::POOLS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The most cells in a store of `max_keys` keys, for all limits together. It is bounded because a
    /// protocol can let callers bring their own limits.
    pub(super) fn most_cells(max_keys: usize) -> usize {
        (max_keys / KEYS_PER_CELL).max(FEWEST)
    }

    /// How many of `slots` slots are for cells; the others are for keys.
    pub(super) fn most_cells_among(slots: usize) -> usize {
        (slots / (KEYS_PER_CELL + 1) + 1).max(FEWEST).min(slots)
    }

    pub(super) const fn capacity(&self) -> &MemoryCapacity {
        &self.capacity
    }

    /// Whether there are no cells, alive or dead. Then new keys need no handover.
    pub(super) fn is_empty(&self) -> bool {
        self.capacity.keys() == 0
    }

    pub(super) fn count(&self, charge: &Charge<'_>) {
        self.counter(charge.rule().id).fetch_add(1, Ordering::Relaxed);
    }

    /// Charges that went to the cells of a rule.
    pub(super) fn count_of_rule(&self, rule: Fingerprint) -> u64 {
        self.counter(rule).load(Ordering::Relaxed)
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    fn counter(&self, rule: Fingerprint) -> &AtomicU64 {
        &self.counts[usize::from(rule.pool()) % Fingerprint::POOLS]
    }

    /// Locks the cells, given a reading of the clock.
    pub(super) fn open(&self, reading: Timestamp, clock: &impl Clock) -> OverflowCells<'_> {
        let mut shard = self.shard.lock();
        let time = shard.time(reading, clock);
        OverflowCells { shard, overflow: self, time }
    }

    /// The context of the cell of a charge's key. A cell's windows are never staggered.
    fn context<'a>(&'a self, charge: &'a Charge<'a>, time: Timestamp) -> ChargeContext<'a> {
        let (id, counter) = (charge.rule().id, charge.counter());
        let cell = (counter.low() >> CELL_AT) & (self.cells - 1);
        let key = Fingerprint::new(id.high() ^ cell.wrapping_mul(SPREAD), id.low());
        let upkeep = TableUpkeep { time, capacity: &self.capacity, signpost: None };
        ChargeContext { charge, key, now: time, upkeep }
    }
}

impl<'a> OverflowCells<'a> {
    pub(super) fn context(&self, charge: &'a Charge<'a>) -> ChargeContext<'a> {
        self.overflow.context(charge, self.time)
    }

    pub(super) fn shard(&mut self) -> &mut MemoryShard {
        &mut self.shard
    }

    /// How a key that has found room gets its own counter.
    ///
    /// Also sweeps dead cells, so that soon there are none left to check.
    pub(super) fn hand_over(&mut self, charge: &'a Charge<'a>) -> CellHandover {
        let context = self.context(charge);
        self.shard.sweep(context.upkeep);
        if !self.shard.has_live_slot(context) {
            return CellHandover::Fresh;
        }
        let verdict = self.shard.probe(context, Cost::PEEK);
        let used = verdict.limit.saturating_sub(verdict.remaining);
        match Cost::new(used).unwrap_or(Cost::PEEK) {
            Cost::PEEK => CellHandover::Fresh,
            // If nothing remains, more may have been taken under a larger limit. Staggered windows do
            // not end when those of a cell do.
            _ if verdict.remaining == 0 || charge.rule().staggered => CellHandover::Later,
            _ if charge.cost().is_peek() => CellHandover::Later,
            used => CellHandover::StartWith(used),
        }
    }
}

/// How a key that may have shared a counter gets one of its own.
pub(super) enum CellHandover {
    /// With a fresh counter: the cell has no live count.
    Fresh,
    /// With the count of the whole cell: this key may have taken all of it.
    StartWith(Cost),
    /// Not yet: the cell keeps counting.
    Later,
}

/// The number of keys with their own counters per cell.
const KEYS_PER_CELL: usize = 4;
const FEWEST: usize = 1_024;

/// One limit can have one in this many cells. If several limits are flooded together, each gets less,
/// and new keys without even a cell are denied.
const RULES: usize = 2;

/// The bits of a counter that choose its cell are not those that choose its shard.
const CELL_AT: u32 = 12;

/// Odd, so that no two cells of a limit collide, and large, so that they are spread over the table.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
