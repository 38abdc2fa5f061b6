//! One algorithm's states: an open-addressing table keyed by fingerprint.

use tidegate_core::algorithm::Algorithm;
use tidegate_core::{Cost, Fingerprint, Timestamp, Verdict};

use super::capacity::MemoryCapacity;
use super::signpost::{self, Signpost};
use crate::Verdicts;

/// States by fingerprint, in slots that are probed linearly.
///
/// A general hash map would keep control bytes beside the slots and double when it is full. Here
/// the fingerprint is its own control byte, so a lookup touches one place in memory, and the table
/// grows by a fifth, so that a growing table is never less than two thirds full. Together that
/// halves both the cache misses and the bytes per key. A key's home is its fingerprint scaled to
/// the number of slots, which need not be a power of two.
#[derive(Debug)]
pub(super) struct StateTable<A: Algorithm> {
    slots: Vec<TableSlot<A::State>>,
    occupied: usize,
    /// Where the next sweep begins.
    hand: usize,
}

/// A slot: a key with its state, or vacant.
#[derive(Clone, Debug)]
struct TableSlot<S> {
    key: Fingerprint,
    state: S,
}

/// What a change to a table needs besides the change itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableUpkeep<'a> {
    /// The clock's time, which decides whether keys are dead. A charge's own time can run ahead of it;
    /// by that time, other keys would be dropped early.
    pub(super) time: Timestamp,
    pub(super) capacity: &'a MemoryCapacity,
    /// Updated when the slots move. The shared counters of a full store have none.
    pub(super) signpost: Option<&'a Signpost>,
}

/// Slots that a new key examines: more than one, so that a table of dead keys shrinks faster than
/// new ones arrive.
const SWEPT_BY_A_NEW_KEY: usize = 4;
/// Below this many slots, speed matters more than space.
const SMALL: usize = 256;
/// Below this many bytes, coarsening a log gains nothing.
const SMALL_LOG: usize = 512;
/// Marks an empty slot.
const VACANT: Fingerprint = Fingerprint::NONE;

impl<A: Algorithm> StateTable<A> {
    pub(super) fn forget_at(&self, key: Fingerprint) -> Option<Timestamp> {
        self.find(key).map(|index| A::forget_at(&self.slots[index].state))
    }

    /// The verdict for a key; a key that is not in the table is fresh.
    pub(super) fn probe(&self, by: &A, key: Fingerprint, cost: Cost, now: Timestamp) -> Verdict {
        match self.find(key) {
            Some(index) => by.probe(&self.slots[index].state, cost, now),
            None => by.probe(&A::State::default(), cost, now),
        }
    }

    /// Probes a key in the table and takes the cost if it fits: one lookup for both. `None` if the key
    /// is not in the table.
    ///
    /// The verdict is written where it will stay. Returned through several callers, it would be
    /// copied by each, which costs more than the decision.
    #[inline(always)]
    pub(super) fn apply_known(
        &mut self,
        by: &A,
        key: Fingerprint,
        cost: Cost,
        now: Timestamp,
        capacity: &MemoryCapacity,
        out: &mut Verdicts,
    ) -> Option<bool> {
        let index = self.find(key)?;
        let state = &self.slots[index].state;
        let allowed = by.admits(state, cost, now);
        if allowed && !cost.is_peek() {
            out.push(self.pay(by, index, cost, now, capacity));
            return Some(true);
        }
        out.push(by.probe(state, cost, now));
        if !cost.is_peek() {
            self.change(index, capacity, |state| by.deny(state, cost, now));
            if by.counts_denied()
                && let Some(verdict) = out.last_mut()
            {
                verdict.remaining = by.probe(&self.slots[index].state, Cost::PEEK, now).remaining;
            }
        }
        Some(allowed)
    }

    /// Takes a cost that was admitted, from a known key or a new one.
    pub(super) fn commit(
        &mut self,
        by: &A,
        key: Fingerprint,
        cost: Cost,
        now: Timestamp,
        upkeep: TableUpkeep<'_>,
    ) -> Verdict {
        let index = self.find(key).unwrap_or_else(|| self.admit(key, upkeep));
        self.pay(by, index, cost, now, upkeep.capacity)
    }

    /// Records a denial. A new key leaves nothing behind, unless its algorithm counts denials.
    pub(super) fn deny(
        &mut self,
        by: &A,
        key: Fingerprint,
        cost: Cost,
        now: Timestamp,
        upkeep: TableUpkeep<'_>,
    ) {
        let index = self.find(key).or_else(|| {
            let mut fresh = A::State::default();
            by.deny(&mut fresh, cost, now);
            (fresh != A::State::default()).then(|| self.admit(key, upkeep))
        });
        if let Some(index) = index {
            self.change(index, upkeep.capacity, |state| by.deny(state, cost, now));
        }
    }

    pub(super) fn refund(
        &mut self,
        by: &A,
        key: Fingerprint,
        amount: Cost,
        now: Timestamp,
        upkeep: TableUpkeep<'_>,
    ) {
        if let Some(index) = self.find(key) {
            self.change(index, upkeep.capacity, |state| by.refund(state, amount, now));
        }
    }

    pub(super) fn remove(&mut self, key: Fingerprint, capacity: &MemoryCapacity) {
        if let Some(index) = self.find(key) {
            self.vacate(index, capacity);
        }
    }

    /// Examines the next few slots and drops dead keys.
    pub(super) fn sweep(&mut self, slots: usize, upkeep: TableUpkeep<'_>) {
        for _ in 0..slots.min(self.slots.len()) {
            self.hand = if self.hand < self.slots.len() { self.hand } else { 0 };
            let slot = &self.slots[self.hand];
            if slot.key != VACANT && A::forget_at(&slot.state) <= upkeep.time {
                // The slot behind moves up, so the hand stays where it is.
                self.vacate(self.hand, upkeep.capacity);
            } else {
                self.hand += 1;
            }
        }
    }

    /// Gives a new key a slot, after a sweep of a few others: so new keys pay for removing dead ones.
    fn admit(&mut self, key: Fingerprint, upkeep: TableUpkeep<'_>) -> usize {
        self.sweep(SWEPT_BY_A_NEW_KEY, upkeep);
        if self.is_too_full() || self.is_sparse() {
            self.rebuild(upkeep);
        }
        upkeep.capacity.added(key);
        self.insert(key)
    }

    /// Whether one more key would make probes too long, which is at four fifths full. A small table
    /// costs little, so it can be half empty, and nearly every lookup ends at the first slot.
    fn is_too_full(&self) -> bool {
        let (keys, slots) = (self.occupied + 1, self.slots.len());
        if slots < SMALL { keys * 2 > slots } else { keys * 5 > slots * 4 }
    }

    /// Whether a flood has passed and left its memory behind.
    fn is_sparse(&self) -> bool {
        self.slots.len() > SMALL && self.occupied * 4 < self.slots.len()
    }

    /// Moves live keys to a table of the right size.
    fn rebuild(&mut self, upkeep: TableUpkeep<'_>) {
        let old = std::mem::take(&mut self.slots);
        let is_live = |slot: &TableSlot<A::State>| {
            slot.key != VACANT && A::forget_at(&slot.state) > upkeep.time
        };
        let live = old.iter().filter(|slot| is_live(slot)).count();
        let slots = if live < SMALL / 4 { (live + 1) * 4 } else { SMALL.max((live + 1) * 3 / 2) };
        self.slots = vec![TableSlot { key: VACANT, state: A::State::default() }; slots];
        let bytes = |slots: usize| slots * size_of::<TableSlot<A::State>>();
        upkeep.capacity.tables_changed(bytes(old.len()), bytes(slots));
        self.occupied = 0;
        for slot in old.into_iter().filter(|slot| slot.key != VACANT) {
            if is_live(&slot) {
                let index = self.insert(slot.key);
                self.slots[index].state = slot.state;
            } else {
                upkeep.capacity.removed(slot.key);
                upkeep.capacity.logs_changed(A::heap_bytes(&slot.state), 0);
            }
        }
        if let Some(signpost) = upkeep.signpost {
            signpost.point_to(&self.slots);
        }
    }

    #[inline(always)]
    fn pay(
        &mut self,
        by: &A,
        index: usize,
        cost: Cost,
        now: Timestamp,
        capacity: &MemoryCapacity,
    ) -> Verdict {
        let verdict = self.change(index, capacity, |state| by.commit(state, cost, now));
        if A::heap_bytes(&self.slots[index].state) > SMALL_LOG && capacity.logs_are_too_large() {
            self.change(index, capacity, |state| by.coarsen(state));
        }
        verdict
    }

    /// Changes a state and keeps track of the memory it holds.
    #[inline(always)]
    fn change<T>(
        &mut self,
        index: usize,
        capacity: &MemoryCapacity,
        change: impl FnOnce(&mut A::State) -> T,
    ) -> T {
        let state = &mut self.slots[index].state;
        let before = A::heap_bytes(state);
        let result = change(state);
        capacity.logs_changed(before, A::heap_bytes(state));
        result
    }

    #[inline]
    fn find(&self, key: Fingerprint) -> Option<usize> {
        let home = self.home_slot(key);
        let (before, from_home) = self.slots.split_at(home);
        for (distance, slot) in from_home.iter().enumerate() {
            if slot.key == key {
                return Some(home + distance);
            }
            if slot.key == VACANT {
                return None;
            }
        }
        let end = before.iter().position(|slot| slot.key == key || slot.key == VACANT)?;
        (before[end].key == key).then_some(end)
    }

    /// Claims the first empty slot at or after the key's home. There always is one: see
    /// [`StateTable::admit`].
    fn insert(&mut self, key: Fingerprint) -> usize {
        let home = self.home_slot(key);
        let (before, from_home) = self.slots.split_at(home);
        let is_vacant = |slot: &TableSlot<A::State>| slot.key == VACANT;
        let index = match from_home.iter().position(is_vacant) {
            Some(distance) => home + distance,
            None => before.iter().position(is_vacant).unwrap_or(home),
        };
        self.slots[index].key = key;
        self.occupied += 1;
        index
    }

    /// Empties a slot and closes the gap, so that no lookup stops too early.
    fn vacate(&mut self, index: usize, capacity: &MemoryCapacity) {
        self.occupied -= 1;
        capacity.removed(self.slots[index].key);
        capacity.logs_changed(A::heap_bytes(&self.slots[index].state), 0);
        self.slots[index] = TableSlot { key: VACANT, state: A::State::default() };
        let mut gap = index;
        let mut next = self.next_slot(gap);
        while self.slots[next].key != VACANT {
            let home = self.home_slot(self.slots[next].key);
            if self.distance(home, next) >= self.distance(gap, next) {
                self.slots.swap(gap, next);
                gap = next;
            }
            next = self.next_slot(next);
        }
    }

    #[inline]
    fn home_slot(&self, key: Fingerprint) -> usize {
        signpost::home_slot(key, self.slots.len())
    }

    fn next_slot(&self, index: usize) -> usize {
        if index + 1 == self.slots.len() { 0 } else { index + 1 }
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }
}

// Not derived: that would require a default of the algorithm.
impl<A: Algorithm> Default for StateTable<A> {
    fn default() -> Self {
        Self { slots: Vec::new(), occupied: 0, hand: 0 }
    }
}

#[cfg(test)]
mod tests;
