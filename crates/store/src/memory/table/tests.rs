//! Tests of the table as a map, of its size, and of the keys that it drops.

use std::collections::HashMap;

use tidegate_core::algorithm::{FixedWindow, SlidingLog};

use super::*;

/// Spreads small numbers over the whole range, as a hash would.
fn key(n: u64) -> Fingerprint {
    Fingerprint::new(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), n)
}

fn limit<A: Algorithm>(quota: &str) -> A {
    A::from_quota(&quota.parse().unwrap()).unwrap()
}

/// A table, its capacity, and the time.
struct TableFixture<A: Algorithm> {
    table: StateTable<A>,
    by: A,
    capacity: MemoryCapacity,
    now: Timestamp,
}

impl<A: Algorithm> TableFixture<A> {
    fn new(quota: &str, max_log_bytes: usize) -> Self {
        let capacity = MemoryCapacity::new(usize::MAX, max_log_bytes);
        Self {
            table: StateTable::default(),
            by: limit(quota),
            capacity,
            now: Timestamp::from_secs(1),
        }
    }

    fn commit(&mut self, n: u64) {
        let upkeep = TableUpkeep { time: self.now, capacity: &self.capacity, signpost: None };
        let _ = self.table.commit(&self.by, key(n), Cost::ONE, self.now, upkeep);
    }

    fn contains(&self, n: u64) -> bool {
        self.table.find(key(n)).is_some()
    }
}

#[test]
fn behaves_like_a_map_while_keys_come_and_go() {
    let mut fixture = TableFixture::<FixedWindow>::new("1000000/400d", 0);
    let mut model = HashMap::new();
    let mut random = 7_u64;
    for _ in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let n = (random >> 33) % 700;
        if random >> 62 == 0 {
            fixture.table.remove(key(n), &fixture.capacity);
            model.remove(&n);
        } else {
            fixture.commit(n);
            *model.entry(n).or_insert(0_u64) += 1;
        }
        assert_eq!((fixture.table.occupied, fixture.capacity.keys()), (model.len(), model.len()));
    }
    for n in 0..700 {
        let verdict = fixture.table.probe(&fixture.by, key(n), Cost::ONE, fixture.now);
        assert_eq!(1_000_000 - verdict.remaining, model.get(&n).copied().unwrap_or(0));
        assert_eq!(fixture.contains(n), model.contains_key(&n));
    }
}

#[test]
fn a_growing_table_stays_between_two_thirds_and_four_fifths_full() {
    let mut fixture = TableFixture::<FixedWindow>::new("5/day", 0);
    for n in 0..10_000 {
        fixture.commit(n);
        let (keys, slots) = (fixture.table.occupied, fixture.table.slots.len());
        assert!(keys * 5 <= slots * 4);
        assert!(slots <= SMALL || keys * 100 >= slots * 65);
    }
}

#[test]
fn a_table_of_any_size_is_not_rebuilt_for_every_new_key() {
    for live in 0..2_000 {
        let mut fixture = TableFixture::<FixedWindow>::new("5/day", 0);
        (0..live).for_each(|n| fixture.commit(n));
        let upkeep = TableUpkeep { time: fixture.now, capacity: &fixture.capacity, signpost: None };
        fixture.table.rebuild(upkeep);
        assert!(!fixture.table.is_too_full() && !fixture.table.is_sparse(), "{live}");
    }
}

#[test]
fn new_keys_sweep_the_dead_ones_out_and_the_memory_goes_with_them() {
    let mut fixture = TableFixture::<FixedWindow>::new("5/second", 0);
    (0..10_000).for_each(|n| fixture.commit(n));
    let slots = fixture.table.slots.len();
    fixture.now = Timestamp::from_secs(9);
    for n in 10_000..10_500 {
        fixture.commit(n);
    }
    // New keys have swept a part of the table. The rest takes two more rounds of the hand.
    for _ in 0..2 {
        fixture.table.sweep(
            usize::MAX,
            TableUpkeep { time: fixture.now, capacity: &fixture.capacity, signpost: None },
        );
    }
    fixture.commit(10_500);
    assert_eq!((fixture.table.occupied, fixture.capacity.keys()), (501, 501));
    assert!((0..10_000).all(|n| !fixture.contains(n)));
    assert!(fixture.table.slots.len() < slots / 8);
}

#[test]
fn logs_are_counted_and_coarsened_when_they_outgrow_the_budget() {
    let mut fixture = TableFixture::<SlidingLog>::new("100000/day", 4_096);
    for second in 0..10_000 {
        fixture.now = Timestamp::from_secs(second);
        (0..4).for_each(|n| fixture.commit(n));
    }
    assert!(fixture.capacity.log_bytes() < 8_192, "{}", fixture.capacity.log_bytes());
    let verdict = fixture.table.probe(&fixture.by, key(0), Cost::ONE, fixture.now);
    assert_eq!(verdict.remaining, 100_000 - 10_000);
    (0..4).for_each(|n| fixture.table.remove(key(n), &fixture.capacity));
    assert_eq!(fixture.capacity.log_bytes(), 0);
}
