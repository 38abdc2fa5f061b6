//! One algorithm's states: an open-addressing table of fingerprints.

use tidegate_core::algorithm::Algorithm;
use tidegate_core::{Cost, Fingerprint, Timestamp, Verdict};

use crate::Verdicts;

/// States by fingerprint, in slots that are probed one after the other.
///
/// A general hash map would keep control bytes beside the slots and double when it is full. Here
/// the fingerprint is its own control byte, so a lookup touches one place in memory, and the
/// table grows by a fifth, so that it is never less than two thirds full: together that halves
/// both the cache misses and the bytes of a key. A key's home is its fingerprint scaled to the
/// number of slots, which need not be a power of two.
#[derive(Debug)]
pub(super) struct Table<A: Algorithm> {
    slots: Vec<Slot<A::State>>,
    occupied: usize,
    /// Where the next sweep begins.
    hand: usize,
    heap_bytes: usize,
}

#[derive(Clone, Debug)]
struct Slot<S> {
    key: Fingerprint,
    state: S,
}

/// Slots that a new key looks at: more than one, so that a table of dead keys shrinks faster than
/// new ones come.
const SWEPT_BY_A_NEW_KEY: usize = 4;

/// Slots below which speed counts for more than space.
const SMALL: usize = 256;

/// Marks a slot that holds nothing.
const VACANT: Fingerprint = Fingerprint::NONE;

impl<A: Algorithm> Table<A> {
    pub(super) fn contains(&self, key: Fingerprint) -> bool {
        self.find(key).is_some()
    }

    /// Keys that are here, dead or alive.
    pub(super) fn len(&self) -> usize {
        self.occupied
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    pub(super) fn forget_at(&self, key: Fingerprint) -> Option<Timestamp> {
        self.find(key).map(|place| A::forget_at(&self.slots[place].state))
    }

    /// What a key would be told; one that is not here is fresh.
    pub(super) fn probe(&self, by: &A, key: Fingerprint, cost: Cost, now: Timestamp) -> Verdict {
        match self.find(key) {
            Some(place) => by.probe(&self.slots[place].state, cost, now),
            None => by.probe(&A::State::default(), cost, now),
        }
    }

    /// Probes a key that is here and takes the cost if it fits: one lookup for both.
    /// `None` when the key is not here.
    ///
    /// The verdict goes where it will stay. Handed back through several callers it would be
    /// copied by each, which costs more than the decision.
    #[inline(always)]
    pub(super) fn decide(
        &mut self,
        by: &A,
        key: Fingerprint,
        cost: Cost,
        now: Timestamp,
        heap_budget: usize,
        out: &mut Verdicts,
    ) -> Option<bool> {
        let place = self.find(key)?;
        let state = &self.slots[place].state;
        let allowed = by.admits(state, cost, now);
        if allowed && !cost.is_peek() {
            out.push(self.pay(by, place, cost, now, heap_budget));
            return Some(true);
        }
        out.push(by.probe(state, cost, now));
        if !cost.is_peek() {
            self.refuse(by, place, cost, now);
        }
        Some(allowed)
    }

    /// Takes a cost that was probed, from a key that is here or from a new one.
    pub(super) fn commit(
        &mut self,
        by: &A,
        key: Fingerprint,
        cost: Cost,
        now: Timestamp,
        heap_budget: usize,
    ) -> Verdict {
        let place = self.find(key).unwrap_or_else(|| self.admit(key, now));
        self.pay(by, place, cost, now, heap_budget)
    }

    pub(super) fn deny(&mut self, by: &A, key: Fingerprint, cost: Cost, now: Timestamp) {
        let place = self.find(key).unwrap_or_else(|| self.admit(key, now));
        self.refuse(by, place, cost, now);
    }

    pub(super) fn refund(&mut self, by: &A, key: Fingerprint, amount: Cost, now: Timestamp) {
        if let Some(place) = self.find(key) {
            self.change(place, |state| by.refund(state, amount, now));
        }
    }

    pub(super) fn remove(&mut self, key: Fingerprint) {
        if let Some(place) = self.find(key) {
            self.vacate(place);
        }
    }

    /// Looks at the next few slots and drops what is dead.
    pub(super) fn sweep(&mut self, slots: usize, now: Timestamp) {
        for _ in 0..slots.min(self.slots.len()) {
            self.hand = if self.hand < self.slots.len() { self.hand } else { 0 };
            let slot = &self.slots[self.hand];
            if slot.key != VACANT && A::forget_at(&slot.state) <= now {
                // The slot behind moves up, so the hand stays.
                self.vacate(self.hand);
            } else {
                self.hand += 1;
            }
        }
    }

    /// Gives a new key a slot. It pays for it by looking for dead ones.
    fn admit(&mut self, key: Fingerprint, now: Timestamp) -> usize {
        self.sweep(SWEPT_BY_A_NEW_KEY, now);
        if self.is_crowded() {
            self.rebuild(now);
        }
        self.insert(key)
    }

    /// Whether one more key would make probes too long: at four fifths. A small table costs
    /// little, so it may be half empty, and nearly every lookup ends at once.
    fn is_crowded(&self) -> bool {
        let (keys, slots) = (self.occupied + 1, self.slots.len());
        if slots < SMALL { keys * 2 > slots } else { keys * 5 > slots * 4 }
    }

    /// Moves what is alive to a table of the right size: larger, or smaller after a flood.
    fn rebuild(&mut self, now: Timestamp) {
        let old = std::mem::take(&mut self.slots);
        let is_live = |slot: &Slot<A::State>| slot.key != VACANT && A::forget_at(&slot.state) > now;
        let live = old.iter().filter(|slot| is_live(slot)).count();
        let slots = if live < SMALL / 4 { (live + 1) * 4 } else { (live + 1) * 3 / 2 };
        self.slots = vec![Slot { key: VACANT, state: A::State::default() }; slots];
        (self.occupied, self.heap_bytes) = (0, 0);
        for slot in old.into_iter().filter(is_live) {
            let place = self.insert(slot.key);
            self.heap_bytes += A::heap_bytes(&slot.state);
            self.slots[place].state = slot.state;
        }
    }

    #[inline(always)]
    fn pay(
        &mut self,
        by: &A,
        place: usize,
        cost: Cost,
        now: Timestamp,
        heap_budget: usize,
    ) -> Verdict {
        let verdict = self.change(place, |state| by.commit(state, cost, now));
        if self.heap_bytes > heap_budget {
            self.change(place, A::coarsen);
        }
        verdict
    }

    #[inline(always)]
    fn refuse(&mut self, by: &A, place: usize, cost: Cost, now: Timestamp) {
        self.change(place, |state| by.deny(state, cost, now));
    }

    /// Changes a state and keeps count of the memory it holds.
    #[inline(always)]
    fn change<T>(&mut self, place: usize, change: impl FnOnce(&mut A::State) -> T) -> T {
        let state = &mut self.slots[place].state;
        let before = A::heap_bytes(state);
        let result = change(state);
        self.heap_bytes = self.heap_bytes + A::heap_bytes(state) - before;
        result
    }

    #[inline]
    fn find(&self, key: Fingerprint) -> Option<usize> {
        let home = self.home(key);
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

    /// Claims the first vacant slot at or after the key's home. There always is one: see
    /// [`Table::admit`].
    fn insert(&mut self, key: Fingerprint) -> usize {
        let home = self.home(key);
        let (before, from_home) = self.slots.split_at(home);
        let is_vacant = |slot: &Slot<A::State>| slot.key == VACANT;
        let place = match from_home.iter().position(is_vacant) {
            Some(distance) => home + distance,
            None => before.iter().position(is_vacant).unwrap_or(home),
        };
        self.slots[place].key = key;
        self.occupied += 1;
        place
    }

    /// Empties a slot and closes the gap, so that no lookup stops too early.
    fn vacate(&mut self, place: usize) {
        self.occupied -= 1;
        self.heap_bytes -= A::heap_bytes(&self.slots[place].state);
        self.slots[place] = Slot { key: VACANT, state: A::State::default() };
        let mut gap = place;
        let mut next = self.after(gap);
        while self.slots[next].key != VACANT {
            let home = self.home(self.slots[next].key);
            if self.distance(home, next) >= self.distance(gap, next) {
                self.slots.swap(gap, next);
                gap = next;
            }
            next = self.after(next);
        }
    }

    /// The fingerprint's upper half, scaled from 2^64 to the number of slots.
    #[inline]
    fn home(&self, key: Fingerprint) -> usize {
        ((u128::from(key.high()) * self.slots.len() as u128) >> 64) as usize
    }

    fn after(&self, place: usize) -> usize {
        if place + 1 == self.slots.len() { 0 } else { place + 1 }
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }
}

// Not derived: an algorithm need not have a default.
impl<A: Algorithm> Default for Table<A> {
    fn default() -> Self {
        Self { slots: Vec::new(), occupied: 0, hand: 0, heap_bytes: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use tidegate_core::algorithm::{FixedWindow, SlidingLog};

    const BUDGET: usize = usize::MAX;

    /// Spreads small numbers over the whole range, as a hash would.
    fn key(n: u64) -> Fingerprint {
        Fingerprint::new(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), n + 1)
    }

    fn limit<A: Algorithm>(quota: &str) -> A {
        A::from_quota(&quota.parse().unwrap()).unwrap()
    }

    #[test]
    fn behaves_like_a_map_while_keys_come_and_go() {
        let by: FixedWindow = limit("1000000/400d");
        let (mut table, mut model) = (Table::<FixedWindow>::default(), HashMap::new());
        let now = Timestamp::from_secs(1);
        let mut random = 7_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let n = (random >> 33) % 700;
            if random >> 62 == 0 {
                table.remove(key(n));
                model.remove(&n);
            } else {
                let _ = table.commit(&by, key(n), Cost::ONE, now, BUDGET);
                *model.entry(n).or_insert(0_u64) += 1;
            }
            assert_eq!(table.len(), model.len());
        }
        for n in 0..700 {
            let used = 1_000_000 - table.probe(&by, key(n), Cost::ONE, now).remaining;
            assert_eq!(used, model.get(&n).copied().unwrap_or(0));
            assert_eq!(table.contains(key(n)), model.contains_key(&n));
        }
    }

    #[test]
    fn stays_between_two_thirds_and_four_fifths_full() {
        let by: FixedWindow = limit("5/day");
        let mut table = Table::<FixedWindow>::default();
        for n in 0..10_000 {
            let _ = table.commit(&by, key(n), Cost::ONE, Timestamp::from_secs(1), BUDGET);
            assert!(table.occupied * 5 <= table.slots.len() * 4);
            assert!(n < 200 || table.occupied * 100 >= table.slots.len() * 65);
        }
    }

    #[test]
    fn new_keys_sweep_the_dead_ones_out() {
        let by: FixedWindow = limit("5/second");
        let mut table = Table::<FixedWindow>::default();
        for n in 0..1_000 {
            let _ = table.commit(&by, key(n), Cost::ONE, Timestamp::from_secs(1), BUDGET);
        }
        for n in 1_000..2_000 {
            let _ = table.commit(&by, key(n), Cost::ONE, Timestamp::from_secs(9), BUDGET);
        }
        assert_eq!(table.len(), 1_000);
        assert!((0..1_000).all(|n| !table.contains(key(n))));
    }

    #[test]
    fn logs_are_counted_and_coarsened_when_they_outgrow_the_budget() {
        let by: SlidingLog = limit("100000/day");
        let mut table = Table::<SlidingLog>::default();
        for second in 0..10_000 {
            for n in 0..4 {
                let now = Timestamp::from_secs(second);
                let _ = table.commit(&by, key(n), Cost::ONE, now, 4_096);
            }
        }
        assert!(table.heap_bytes() < 8_192, "{}", table.heap_bytes());
        let verdict = table.probe(&by, key(0), Cost::ONE, Timestamp::from_secs(10_000));
        assert_eq!(verdict.remaining, 100_000 - 10_000);
        (0..4).for_each(|n| table.remove(key(n)));
        assert_eq!(table.heap_bytes(), 0);
    }
}
