//! Settles charges: of known keys, of new keys, and of keys for which there is no room.
//!
//! There are three ways, and each falls back to the next: a known key is settled in its table, a new key needs
//! room first, and a key without room is settled in a cell that it shares.

use smallvec::SmallVec;
use tidegate_core::{Charge, Timestamp, Verdict, settle};

use super::capacity::NoRoomError;
use super::ledger::Ledger;
use super::overflow::CellHandover;
use super::shard::MemoryShard;
use super::table::TableUpkeep;
use super::table_account::ChargeContext;
use super::{MemoryStore, key_of, signpost};
use crate::sync::{MutexGuard, Ordering};
use crate::{Clock, Verdicts};

impl<C: Clock> MemoryStore<C> {
    /// The path of nearly every request: one limit, and a known key.
    #[inline(never)]
    pub(super) fn apply_one(&self, charge: &Charge<'_>, out: &mut Verdicts) -> bool {
        // The clock is read before the lock is taken, so that the lock is held for less time. The
        // lock's memory arrives while the clock is read. The slot's memory is prefetched after that:
        // computing its address takes a moment, and reading the clock waits for everything before
        // it.
        signpost::fetch(self.shard(charge));
        let reading = self.clock.now();
        self.signpost(charge).fetch(charge.counter());
        self.apply_at(charge, reading, out)
    }

    /// Prefetches the memory that settling a charge will need.
    #[inline]
    fn fetch(&self, charge: &Charge<'_>) {
        signpost::fetch(self.shard(charge));
        self.signpost(charge).fetch(charge.counter());
    }

    /// Settles a charge, given a reading of the clock.
    #[inline(always)]
    fn apply_at(&self, charge: &Charge<'_>, reading: Timestamp, out: &mut Verdicts) -> bool {
        let mut shard = self.shard(charge).lock();
        let time = shard.time(reading, &self.clock);
        let (key, now) = (key_of(charge), time + charge.phase());
        match shard.apply_known(charge, key, now, &self.capacity, out) {
            Some(allowed) => allowed,
            None => self.apply_new_key(shard, self.context(charge, time), out),
        }
    }

    /// Settles a charge of a new key. If there is no room, sweeps dead keys in its own shard and in one
    /// other before the key shares a counter.
    #[cold]
    #[inline(never)]
    fn apply_new_key<'a>(
        &'a self,
        mut shard: MutexGuard<'a, MemoryShard>,
        mut context: ChargeContext<'a>,
        out: &mut Verdicts,
    ) -> bool {
        let mut room = shard.make_room(context);
        if room.is_err() {
            // Not while holding this lock: only `Ledger` may hold several.
            drop(shard);
            self.sweep_elsewhere(context.upkeep);
            (shard, context) = self.open(context.charge);
            room = shard.make_room(context);
        }
        // From here on the shard stays locked, so that only one thread decides where a key goes.
        match room {
            Ok(None) => shard.apply(context, out),
            Ok(Some(_claim)) => self.apply_in_room(&mut shard, context, out),
            Err(NoRoomError) => self.apply_in_overflow(context, out),
        }
    }

    /// Settles a charge of a new key that has room. If it may have shared a counter before, it continues
    /// from there.
    fn apply_in_room(
        &self,
        shard: &mut MemoryShard,
        context: ChargeContext<'_>,
        out: &mut Verdicts,
    ) -> bool {
        if !self.overflow.is_empty() {
            let mut cells = self.overflow.open(context.upkeep.time, &self.clock);
            match cells.hand_over(context.charge) {
                CellHandover::Later => {
                    let cell = cells.context(context.charge);
                    return cells.shard().apply(cell, out);
                }
                CellHandover::StartWith(used) => {
                    let _ = shard.commit(context, used);
                }
                CellHandover::Fresh => {}
            }
        }
        shard.apply(context, out)
    }

    /// Sweeps another shard with each call, so that dead keys anywhere make room everywhere.
    fn sweep_elsewhere(&self, upkeep: TableUpkeep<'_>) {
        let turn = self.hand.fetch_add(1, Ordering::Relaxed);
        self.shards[turn & (self.shards.len() - 1)].lock().sweep(upkeep);
    }

    fn apply_in_overflow(&self, context: ChargeContext<'_>, out: &mut Verdicts) -> bool {
        let charge = context.charge;
        self.overflow.count(charge);
        let mut cells = self.overflow.open(context.upkeep.time, &self.clock);
        let cell = cells.context(charge);
        match cells.shard().make_room(cell) {
            Ok(_claim) => cells.shard().apply(cell, out),
            Err(NoRoomError) => {
                out.push(no_room_verdict(charge));
                false
            }
        }
    }

    pub(super) fn apply_together(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> bool {
        settle(charges, &mut Ledger::open(self, charges), out)
    }

    /// Settles each charge separately. The memory of each is prefetched while the caller produces the
    /// next. The clock is read once for a group.
    pub(super) fn apply_each<'c>(
        &self,
        mut charges: impl Iterator<Item = Charge<'c>>,
        mut report: impl FnMut(&Charge<'c>, &Verdict),
    ) {
        let (mut group, mut out) = (SmallVec::<[_; GROUP]>::new(), Verdicts::new());
        loop {
            group.extend(charges.by_ref().take(GROUP).inspect(|charge| self.fetch(charge)));
            if group.is_empty() {
                return;
            }
            let reading = self.clock.now();
            for charge in group.drain(..) {
                self.apply_at(&charge, reading, &mut out);
                out.drain(..).for_each(|verdict| report(&charge, &verdict));
            }
        }
    }
}

/// The verdict if even the shared counters have no room, because too many limits use them: denied for
/// one period.
pub(super) fn no_room_verdict(charge: &Charge<'_>) -> Verdict {
    let limit = charge.rule().limit;
    let wait = limit.period();
    Verdict {
        allowed: false,
        limit: limit.capacity(),
        remaining: 0,
        retry_after: (charge.cost().get() <= limit.capacity()).then_some(wait),
        reset_after: wait,
    }
}

/// Small enough that the memory of the first charge is still in the cache when the last one arrives, and
/// that the group's time is still current when the last one is settled.
const GROUP: usize = 32;
