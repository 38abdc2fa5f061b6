//! Settles several charges together: locks every shard that they need.
//!
//! A request with one limit takes a shorter way, in `settlement.rs`; this is the way of several. All states
//! are found and locked before the first of them is judged, so that the request is settled at one time and
//! other requests see all of it or nothing.

use smallvec::SmallVec;
use tidegate_core::{Charge, ChargeAccounts, Cost, Timestamp, Verdict};

use super::MemoryStore;
use super::capacity::{NoRoomError, RoomClaim};
use super::overflow::{CellHandover, OverflowCells};
use super::settlement::no_room_verdict;
use super::shard::MemoryShard;
use super::table_account::ChargeContext;
use crate::Clock;
use crate::sync::MutexGuard;

/// The states behind a list of charges, held until the request is settled.
///
/// Shards are locked in ascending order and the overflow shard last, so that no two requests can
/// wait for each other. The clock is read once, when all of them are locked.
pub(super) struct Ledger<'a, C> {
    store: &'a MemoryStore<C>,
    charges: &'a [Charge<'a>],
    shards: SmallVec<[(usize, MutexGuard<'a, MemoryShard>); 4]>,
    cells: Option<OverflowCells<'a>>,
    locations: SmallVec<[StateLocation; 4]>,
    /// Room for the new keys among them. Released with the ledger: by then the keys are either in
    /// or gone.
    claims: SmallVec<[RoomClaim<'a>; 4]>,
    time: Timestamp,
}

/// Where a charge's state is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StateLocation {
    /// In its shard: known, or with room claimed.
    Shard,
    /// New, and there is no room: in the counter that it shares.
    Overflow,
    /// Nowhere: there is no space for another shared counter either.
    Nowhere,
}

impl<'a, C: Clock> Ledger<'a, C> {
    pub(super) fn open(store: &'a MemoryStore<C>, charges: &'a [Charge<'a>]) -> Self {
        let mut indices: SmallVec<[usize; 8]> =
            charges.iter().map(|charge| store.shard_index(charge.counter())).collect();
        indices.sort_unstable();
        indices.dedup();
        let mut shards: SmallVec<[(usize, MutexGuard<'a, MemoryShard>); 4]> =
            indices.iter().map(|index| (*index, store.shards[*index].lock())).collect();
        let time = store.clock.now();
        shards.iter_mut().for_each(|(_, shard)| {
            shard.time(time, &store.clock);
        });
        let mut ledger = Self {
            store,
            charges,
            shards,
            cells: None,
            locations: SmallVec::new(),
            claims: SmallVec::new(),
            time,
        };
        for charge in charges {
            let location = ledger.locate(charge);
            ledger.locations.push(location);
        }
        ledger
    }

    fn locate(&mut self, charge: &'a Charge<'a>) -> StateLocation {
        let earlier = &self.charges[..self.locations.len()];
        let same = earlier.iter().position(|other| other.counter() == charge.counter());
        if let Some(same) = same {
            return self.locations[same];
        }
        let context = self.store.context(charge, self.time);
        match self.shard(charge).make_room(context) {
            Ok(None) => StateLocation::Shard,
            Ok(Some(claim)) => {
                self.claims.push(claim);
                self.locate_in_room(context)
            }
            Err(NoRoomError) => self.locate_in_overflow(charge),
        }
    }

    /// A new key that has room: as in `apply_in_room`.
    fn locate_in_room(&mut self, context: ChargeContext<'a>) -> StateLocation {
        let charge = context.charge;
        if self.cells.is_none() && self.store.overflow.is_empty() {
            return StateLocation::Shard;
        }
        match self.cells().hand_over(charge) {
            CellHandover::Later => return StateLocation::Overflow,
            CellHandover::StartWith(used) => {
                let _ = self.shard(charge).commit(context, used);
            }
            CellHandover::Fresh => {}
        }
        StateLocation::Shard
    }

    fn locate_in_overflow(&mut self, charge: &'a Charge<'a>) -> StateLocation {
        self.store.overflow.count(charge);
        let cells = self.cells();
        let cell = cells.context(charge);
        match cells.shard().make_room(cell) {
            Ok(claim) => {
                self.claims.extend(claim);
                StateLocation::Overflow
            }
            Err(NoRoomError) => StateLocation::Nowhere,
        }
    }

    fn cells(&mut self) -> &mut OverflowCells<'a> {
        let (store, time) = (self.store, self.time);
        self.cells.get_or_insert_with(|| store.overflow.open(time, &store.clock))
    }

    fn shard(&mut self, charge: &Charge<'_>) -> &mut MemoryShard {
        let index = self.store.shard_index(charge.counter());
        let at = self.shards.partition_point(|(locked, _)| *locked < index);
        &mut self.shards[at].1
    }

    /// Runs `work` on the state of a charge, wherever it is.
    fn with_state<T>(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut MemoryShard, ChargeContext<'a>) -> T,
    ) -> Option<T> {
        let charge = &self.charges[index];
        match (self.locations[index], &mut self.cells) {
            (StateLocation::Shard, _) => {
                let context = self.store.context(charge, self.time);
                Some(work(self.shard(charge), context))
            }
            (StateLocation::Overflow, Some(cells)) => {
                let cell = cells.context(charge);
                Some(work(cells.shard(), cell))
            }
            _ => None,
        }
    }
}

impl<C: Clock> ChargeAccounts for Ledger<'_, C> {
    fn probe(&mut self, index: usize, cost: Cost) -> Verdict {
        let verdict = self.with_state(index, |shard, context| shard.probe(context, cost));
        verdict.unwrap_or_else(|| no_room_verdict(&self.charges[index]))
    }

    fn commit(&mut self, index: usize) -> Verdict {
        let cost = self.charges[index].cost();
        let verdict = self.with_state(index, |shard, context| shard.commit(context, cost));
        verdict.unwrap_or_else(|| no_room_verdict(&self.charges[index]))
    }

    fn deny(&mut self, index: usize) {
        self.with_state(index, MemoryShard::deny);
    }
}
