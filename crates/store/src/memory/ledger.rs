//! Several charges at once: every shard they need, locked together.

use smallvec::SmallVec;
use tidegate_core::{Accounts, Charge, Cost, Timestamp, Verdict};

use super::MemoryStore;
use super::account::Ticket;
use super::capacity::{Claim, Full};
use super::settling::turned_away;
use super::shard::Shard;
use crate::Clock;
use crate::sync::MutexGuard;

/// The states behind a list of charges, held until the request is settled.
///
/// Shards are locked in ascending order and the overflow shard last, so that no two requests can
/// wait for each other. The clock is read once, when all of them are locked.
pub(super) struct Ledger<'a, C> {
    store: &'a MemoryStore<C>,
    charges: &'a [Charge<'a>],
    shards: SmallVec<[(usize, MutexGuard<'a, Shard>); 4]>,
    overflow: Option<MutexGuard<'a, Shard>>,
    places: SmallVec<[Place; 4]>,
    /// Room for the new keys among them. Released with the ledger: by then the keys are either in
    /// or gone.
    claims: SmallVec<[Claim<'a>; 4]>,
    time: Timestamp,
}

/// Where a charge's state is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In its shard: known, or with room claimed.
    Shard,
    /// New, and the store is full: in the counter shared by such keys.
    Overflow,
    /// Nowhere: too many limits have shared counters already.
    Nowhere,
}

impl<'a, C: Clock> Ledger<'a, C> {
    pub(super) fn open(store: &'a MemoryStore<C>, charges: &'a [Charge<'a>]) -> Self {
        let mut indices: SmallVec<[usize; 8]> =
            charges.iter().map(|charge| store.shard_index(charge.counter())).collect();
        indices.sort_unstable();
        indices.dedup();
        let mut shards: SmallVec<[(usize, MutexGuard<'a, Shard>); 4]> =
            indices.iter().map(|index| (*index, store.shards[*index].lock())).collect();
        let time = store.clock.now();
        shards.iter_mut().for_each(|(_, shard)| {
            shard.time(time, &store.clock);
        });
        let mut ledger = Self {
            store,
            charges,
            shards,
            overflow: None,
            places: SmallVec::new(),
            claims: SmallVec::new(),
            time,
        };
        for charge in charges {
            let place = ledger.place(charge);
            ledger.places.push(place);
        }
        ledger
    }

    fn place(&mut self, charge: &'a Charge<'a>) -> Place {
        let earlier = &self.charges[..self.places.len()];
        let same = earlier.iter().position(|other| other.counter() == charge.counter());
        if let Some(same) = same {
            return self.places[same];
        }
        let ticket = self.store.ticket(charge, self.time);
        let shard = self.shard(charge);
        if shard.is_settled(ticket) {
            return Place::Shard;
        }
        // A dead key is as good as none, and its place may be needed.
        shard.reset(ticket);
        let capacity = &self.store.capacity;
        let claim = capacity.claim().or_else(|Full| {
            self.shard(charge).sweep(ticket.upkeep);
            capacity.claim()
        });
        match claim {
            Ok(claim) => {
                self.claims.push(claim);
                Place::Shard
            }
            Err(Full) => self.place_overflow(charge),
        }
    }

    fn place_overflow(&mut self, charge: &'a Charge<'a>) -> Place {
        let store = self.store;
        store.capacity.count_overflow();
        let overflow = self.overflow.get_or_insert_with(|| store.overflow.lock());
        let ticket = store.overflow_ticket(charge, overflow.time(self.time, &store.clock));
        if overflow.is_settled(ticket) {
            return Place::Overflow;
        }
        overflow.reset(ticket);
        let claim = store.overflow_capacity.claim().or_else(|Full| {
            overflow.sweep(ticket.upkeep);
            store.overflow_capacity.claim()
        });
        match claim {
            Ok(claim) => {
                self.claims.push(claim);
                Place::Overflow
            }
            Err(Full) => Place::Nowhere,
        }
    }

    fn shard(&mut self, charge: &Charge<'_>) -> &mut Shard {
        let index = self.store.shard_index(charge.counter());
        let at = self.shards.partition_point(|(locked, _)| *locked < index);
        &mut self.shards[at].1
    }

    /// Runs `work` on the state of a charge, wherever it is.
    fn at<T>(&mut self, index: usize, work: impl FnOnce(&mut Shard, Ticket<'a>) -> T) -> Option<T> {
        let charge = &self.charges[index];
        match (self.places[index], &mut self.overflow) {
            (Place::Shard, _) => {
                let ticket = self.store.ticket(charge, self.time);
                Some(work(self.shard(charge), ticket))
            }
            (Place::Overflow, Some(overflow)) => {
                let time = overflow.time(self.time, &self.store.clock);
                Some(work(overflow, self.store.overflow_ticket(charge, time)))
            }
            _ => None,
        }
    }
}

impl<C: Clock> Accounts for Ledger<'_, C> {
    fn probe(&mut self, index: usize, cost: Cost) -> Verdict {
        let verdict = self.at(index, |shard, ticket| shard.probe(ticket, cost));
        verdict.unwrap_or_else(|| turned_away(&self.charges[index]))
    }

    fn commit(&mut self, index: usize) -> Verdict {
        let verdict = self.at(index, Shard::commit);
        verdict.unwrap_or_else(|| turned_away(&self.charges[index]))
    }

    fn deny(&mut self, index: usize) {
        self.at(index, Shard::deny);
    }
}
