//! The embedded store is bounded, and a flood of keys gains nothing.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod support;

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{AlgorithmKind, Charge, Cost, Limit, Rule, Span, Timestamp};
use tidegate_store::{Clock, LocalStore, ManualClock, MemoryStore, Store, Verdicts};

use support::fingerprint;

const START: Timestamp = Timestamp::from_secs(1_763_000_000);

fn rule(kind: AlgorithmKind, quota: &str) -> Rule {
    let limit = Limit::new(kind, &quota.parse().unwrap()).unwrap();
    Rule { id: fingerprint(u64::MAX), limit, enforced: true, staggered: false }
}

fn store(max_keys: usize) -> (MemoryStore<ManualClock>, ManualClock) {
    let clock = ManualClock::at(START);
    (MemoryStore::builder().clock(clock.clone()).max_keys(max_keys).build(), clock)
}

fn allowed(store: &MemoryStore<ManualClock>, key: u64, rule: &Rule) -> bool {
    let charge = Charge::new(fingerprint(key), Cost::ONE, rule);
    store.settle_now(&[charge], &mut Verdicts::new())
}

#[test]
fn ten_million_keys_take_the_room_of_a_hundred_thousand() {
    for (kind, flood) in
        AlgorithmKind::ALL.iter().zip([10_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000])
    {
        let rule = rule(*kind, "2/hour");
        let (store, clock) = store(100_000);
        let victim = u64::MAX / 2;
        assert!(allowed(&store, victim, &rule) && allowed(&store, victim, &rule));
        assert!(!allowed(&store, victim, &rule));
        // One limit alone gets seven tenths of the room.
        (0..69_999).for_each(|key| assert!(allowed(&store, key, &rule)));
        let before = resident_bytes();
        for key in 100_000..flood {
            // Time passes, but not enough for any key to expire.
            if key % 1_000 == 0 {
                clock.advance(Span::from_millis(1));
            }
            let _ = allowed(&store, key, &rule);
        }
        assert!(resident_bytes() < before + (8 << 20), "{kind}");
        assert!(store.stats().keys <= 100_000, "{kind}");
        assert!(store.stats().overflowed > 0, "{kind}");
        assert!(!allowed(&store, victim, &rule), "{kind}: the flood reset the victim");
    }
}

#[test]
fn new_keys_share_strict_counters_while_the_store_is_full() {
    for kind in AlgorithmKind::ALL {
        let rule = rule(*kind, "3/minute");
        let (store, clock) = store(10);
        assert!((0..8).all(|key| allowed(&store, key, &rule)), "{kind}");
        assert_eq!(store.stats().overflowed, 0, "{kind}");
        let passed = (10..10_000).filter(|key| allowed(&store, *key, &rule)).count();
        assert_eq!(passed, 3 * store.stats().shared, "{kind}: each as one caller");
        assert_eq!(store.stats().overflowed, 9_990, "{kind}");
        assert!((0..8).all(|key| allowed(&store, key, &rule)), "{kind}: known keys go on");
        clock.advance(Span::from_secs(200));
        let passed = (20_000..20_008).filter(|key| allowed(&store, *key, &rule)).count();
        assert_eq!((passed, store.stats().keys), (8, 8), "{kind}: the dead make room");
    }
}

#[test]
fn dead_keys_anywhere_make_room_everywhere() {
    for (max_keys, shards) in [(64, 128), (1_000, 4_096), (10_000, 4_096)] {
        let rule = rule(AlgorithmKind::FixedWindow, "1/minute");
        let clock = ManualClock::at(START);
        let builder = MemoryStore::builder().clock(clock.clone());
        let store = builder.max_keys(max_keys).shards(shards).build();
        (0..max_keys as u64 * 7 / 10).for_each(|key| assert!(allowed(&store, key, &rule)));
        clock.advance(Span::from_secs(3_600));
        let passed = (1 << 40..(1 << 40) + 40).filter(|key| allowed(&store, *key, &rule)).count();
        assert_eq!((passed, store.stats().overflowed), (40, 0), "{max_keys} {shards}");
    }
}

/// Keys that come together find as much room as if they had come one by one.
#[test]
fn a_full_store_treats_those_that_come_together_alike() {
    let rule = rule(AlgorithmKind::FixedWindow, "2/minute");
    let charge = |key: u64| Charge::new(fingerprint(key % 37), Cost::ONE, &rule);
    let charges: Vec<_> = (0..200).map(charge).collect();
    let [(together, _), (apart, _)] = [store(10), store(10)];
    let mut told = Vec::new();
    assert!(together.settle_each(charges.clone(), |_, verdict| told.push(*verdict)));
    for (charge, verdict) in charges.iter().zip(&told) {
        let mut alone = Verdicts::new();
        apart.settle_now(&[*charge], &mut alone);
        assert_eq!(alone[..], [*verdict]);
    }
    assert_eq!(together.stats(), apart.stats());
    assert!(together.stats().overflowed > 0);
}

/// A clock that advances by a second whenever it is read.
struct Hurrying(AtomicU64);

impl Clock for Hurrying {
    fn now(&self) -> Timestamp {
        START + Span::from_secs(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn those_that_come_together_are_decided_at_one_time() {
    let rule = rule(AlgorithmKind::FixedWindow, "1/second");
    let store = MemoryStore::builder().clock(Hurrying(AtomicU64::new(0))).build();
    let charges = [Charge::new(fingerprint(1), Cost::ONE, &rule); 3];
    let passed = |charges: &[Charge<'_>]| {
        let mut passed = Vec::new();
        assert!(store.settle_each(charges.to_vec(), |_, verdict| passed.push(verdict.allowed)));
        passed
    };
    assert_eq!(passed(&charges), [true, false, false]);
    assert_eq!(passed(&charges[..1]), [true]);
    assert_eq!(passed(&[]), []);
}

#[test]
fn staggered_keys_push_nobody_out() {
    let staggered = Rule { staggered: true, ..rule(AlgorithmKind::FixedWindow, "1/hour") };
    let plain = Rule { id: fingerprint(1 << 41), staggered: false, ..staggered };
    let (store, clock) = store(1_000_000);
    let mut again = 0;
    for round in 0..2 {
        for key in 0..20_000 {
            let passed = [&plain, &staggered].map(|rule| allowed(&store, key, rule));
            again += passed.iter().filter(|passed| **passed && round > 0).count();
        }
        clock.advance(Span::from_millis(1));
    }
    // A staggered key whose own window rolled over in that millisecond may pass again.
    assert!(again <= 2, "{again} passed again");
}

#[test]
fn the_shared_counters_of_old_limits_make_room_for_new_ones() {
    let (store, clock) = store(0);
    for number in 0..3_000 {
        let rule = Rule { id: fingerprint(number), ..rule(AlgorithmKind::FixedWindow, "1/second") };
        let passes = allowed(&store, 7, &rule);
        assert!(passes || number >= 896, "{number}");
        if number >= 896 {
            clock.advance(Span::from_secs(2));
            assert!(allowed(&store, 7, &rule), "{number}");
        }
    }
}

#[test]
fn several_limits_share_the_overflow_too_and_stay_all_or_nothing() {
    let wide = rule(AlgorithmKind::FixedWindow, "5/minute");
    let narrow = Rule { id: fingerprint(1 << 40), ..rule(AlgorithmKind::SlidingLog, "3/minute") };
    let (store, _) = store(4);
    let settle = |key| {
        let charges = [&wide, &narrow].map(|rule| Charge::new(fingerprint(key), Cost::ONE, rule));
        let mut verdicts = Verdicts::new();
        (store.settle_now(&charges, &mut verdicts), verdicts)
    };
    assert!(settle(1).0 && settle(2).0);
    assert_eq!(store.stats().keys, 4);
    let passed = (3..50).filter(|_| settle(3).0).count();
    assert_eq!(passed, 3);
    let (_, verdicts) = settle(3);
    assert_eq!((verdicts[0].remaining, verdicts[1].remaining), (2, 0));
    assert_eq!(store.stats().keys, 4);
}

/// Rules that differ only in their counters.
fn twins(from: u64, count: u64, quota: &str) -> Vec<Rule> {
    let twin = |n| Rule { id: fingerprint(n), ..rule(AlgorithmKind::FixedWindow, quota) };
    (from..from + count).map(twin).collect()
}

fn settle_all(store: &MemoryStore<ManualClock>, key: u64, rules: &[Rule]) -> bool {
    let charge = |rule| Charge::new(fingerprint(key), Cost::ONE, rule);
    let charges: Vec<_> = rules.iter().map(charge).collect();
    store.settle_now(&charges, &mut Verdicts::new())
}

#[test]
fn dead_keys_among_several_limits_do_not_lift_the_bound() {
    let (store, clock) = store(3);
    let rules = twins(1 << 42, 5, "1/second");
    assert!(settle_all(&store, 1, &rules[..3]));
    clock.advance(Span::from_secs(5));
    assert!(settle_all(&store, 1, &rules));
    assert_eq!(store.stats().keys, 3);
}

#[test]
fn the_shared_counters_make_room_for_several_limits_too() {
    let (store, clock) = store(0);
    for number in 0..600 {
        let rules = twins((1 << 43) + 2 * number, 2, "1/second");
        if number >= 448 {
            clock.advance(Span::from_secs(2));
        }
        assert!(settle_all(&store, 1, &rules), "{number}");
    }
}

#[test]
fn a_shard_without_dead_keys_looks_into_another() {
    let clock = ManualClock::at(START);
    let store = MemoryStore::builder().clock(clock.clone()).max_keys(128).shards(2).build();
    let lasting = rule(AlgorithmKind::FixedWindow, "1/day");
    let passing = Rule { limit: rule(AlgorithmKind::FixedWindow, "1/second").limit, ..lasting };
    // Keys whose counters are in one shard, or in the other.
    let in_shard = |shard: u64| {
        let counter = move |key| Charge::new(fingerprint(key), Cost::ONE, &lasting).counter();
        (0_u64..).filter(move |key| counter(*key).low() & 1 == shard)
    };
    in_shard(0).take(44).for_each(|key| assert!(allowed(&store, key, &lasting)));
    in_shard(1).take(44).for_each(|key| assert!(allowed(&store, key, &passing)));
    clock.advance(Span::from_secs(5));
    in_shard(0).skip(44).take(20).for_each(|key| {
        let _ = allowed(&store, key, &lasting);
    });
    assert!(store.stats().overflowed < 10, "{}", store.stats().overflowed);
}

#[test]
fn a_short_log_stays_exact_however_full_the_budget_is() {
    let rule = rule(AlgorithmKind::SlidingLog, "2/minute");
    let clock = ManualClock::at(START);
    let store = MemoryStore::builder().clock(clock.clone()).max_log_bytes(0).build();
    assert!(allowed(&store, 1, &rule));
    clock.advance(Span::from_micros(1));
    assert!(allowed(&store, 1, &rule));
    clock.set(START + Span::from_secs(60));
    assert!(allowed(&store, 1, &rule), "the first is one minute old");
}

#[test]
fn keys_are_counted_right_whatever_happens_to_them() {
    let rules = AlgorithmKind::ALL.iter().map(|kind| rule(*kind, "3/second")).collect::<Vec<_>>();
    let (store, clock) = store(500);
    let mut random = 5_u64;
    for _ in 0..100_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let charge = |rule| Charge::new(fingerprint(random >> 54), Cost::ONE, rule);
        match random >> 32 & 15 {
            0 => store.reset_now(&charge(&rules[0])),
            1 => store.refund_now(&charge(&rules[1])),
            2 => clock.advance(Span::from_millis(100)),
            3..=5 => {
                let charges: Vec<_> = rules.iter().map(charge).collect();
                let _ = store.settle_now(&charges, &mut Verdicts::new());
            }
            n => {
                let _ = store.settle_now(&[charge(&rules[n as usize % 4])], &mut Verdicts::new());
            }
        }
        assert!(store.stats().keys <= 500);
    }
    for key in 0..1_024 {
        for rule in &rules {
            store.reset_now(&Charge::new(fingerprint(key), Cost::ONE, rule));
        }
    }
    assert_eq!(store.stats().keys, 0);
}

#[test]
fn logs_stay_within_their_budget_and_never_admit_more() {
    let rule = rule(AlgorithmKind::SlidingLog, "10000/hour");
    let clock = ManualClock::at(START);
    let budget = 1 << 20;
    let store = MemoryStore::builder().clock(clock.clone()).max_log_bytes(budget).build();
    let mut admitted = [0_u32; 100];
    for _ in 0..12_000 {
        clock.advance(Span::from_millis(100));
        for (key, admitted) in admitted.iter_mut().enumerate() {
            *admitted += u32::from(allowed(&store, key as u64, &rule));
        }
    }
    assert!(store.stats().log_bytes <= 2 * budget, "{}", store.stats().log_bytes);
    assert!(admitted.iter().all(|admitted| *admitted == 10_000));
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0)
        * 4_096
}
