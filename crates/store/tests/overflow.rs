//! A full store: which keys get their own counter, and how the others share.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod support;

use std::collections::HashMap;

use tidegate_core::{AlgorithmKind, Charge, Cost, Limit, Rule, Span, Timestamp, Verdict};
use tidegate_store::{LocalStore, ManualClock, MemoryStore, Store, Verdicts};

use support::fingerprint;

/// The beginning of a minute.
const START: Timestamp = Timestamp::from_secs(1_763_000_040);

type Manual = MemoryStore<ManualClock>;

/// The rule of a policy with this number.
fn rule(policy: u64, kind: AlgorithmKind, quota: &str) -> Rule {
    let limit = Limit::new(kind, &quota.parse().unwrap()).unwrap();
    Rule { id: fingerprint(u64::MAX - policy), limit, enforced: true, staggered: false }
}

fn store(max_keys: usize) -> (Manual, ManualClock) {
    let clock = ManualClock::at(START);
    (MemoryStore::builder().clock(clock.clone()).max_keys(max_keys).build(), clock)
}

fn ask(store: &Manual, key: u64, cost: Cost, rule: &Rule) -> Verdict {
    let mut verdicts = Verdicts::new();
    store.settle_now(&[Charge::new(fingerprint(key), cost, rule)], &mut verdicts);
    verdicts[0]
}

fn allowed(store: &Manual, key: u64, rule: &Rule) -> bool {
    ask(store, key, Cost::ONE, rule).allowed
}

/// How many of these keys pass, with one request each.
fn passing(store: &Manual, keys: std::ops::Range<u64>, rule: &Rule) -> usize {
    keys.filter(|key| allowed(store, *key, rule)).count()
}

/// New users every minute, each remembered by a sliding window for two minutes. Returns how many of them
/// pass in each of four minutes.
fn four_minutes(store: &Manual, clock: &ManualClock, users: u64) -> [usize; 4] {
    let rule = rule(1, AlgorithmKind::SlidingWindow, "10/minute");
    [0, 1, 2, 3].map(|minute| {
        clock.set(START + Span::from_secs(60 * minute));
        let pause = Span::from_micros(59_000_000 / users);
        let come = |user| {
            clock.advance(pause);
            allowed(store, minute * users + user, &rule)
        };
        (0..users).filter(|user| come(*user)).count()
    })
}

#[test]
fn new_users_every_minute_are_all_admitted_where_there_is_memory() {
    let clock = ManualClock::at(START);
    let store = MemoryStore::builder().clock(clock.clone()).max_memory(6 << 20).build();
    assert!(store.stats().max_keys > 30_000, "{:?}", store.stats());
    assert_eq!(four_minutes(&store, &clock, 10_000), [10_000; 4]);
    assert_eq!(store.stats().overflowed, 0);
    assert!(store.stats().bytes < store.stats().max_bytes, "{:?}", store.stats());
}

/// With the default bounds on a machine with memory for three million keys.
#[test]
fn a_million_new_users_every_minute_are_all_admitted_by_default() {
    let clock = ManualClock::at(START);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    if store.stats().max_keys < 3_000_000 {
        eprintln!("SKIPPED: this machine has little memory: {:?}", store.stats());
        return;
    }
    assert_eq!(four_minutes(&store, &clock, 1_000_000), [1_000_000; 4]);
    assert_eq!(store.stats().overflowed, 0);
}

#[test]
fn too_many_new_users_are_denied_gently() {
    let (store, clock) = store(10_000);
    let passed = four_minutes(&store, &clock, 10_000);
    assert!(passed.iter().all(|passed| *passed > 8_000), "{passed:?}");
    assert!(store.stats().overflowed > 10_000, "{:?}", store.stats());
}

#[test]
fn a_flood_of_one_limit_takes_the_room_of_no_other() {
    for kind in AlgorithmKind::ALL {
        let (store, clock) = store(1_000);
        let search = rule(1, *kind, "10/day");
        let login = rule(2, *kind, "5/minute");
        let _ = passing(&store, 0..5_000, &search);
        for minute in 0..5 {
            for address in 0..30 {
                let address = (1 << 32) + minute * 30 + address;
                let passed = (0..7).filter(|_| allowed(&store, address, &login)).count();
                assert_eq!(passed, 5, "{kind}: judged by a counter of its own");
            }
            let _ = passing(&store, 5_000..6_000, &search);
            clock.advance(Span::from_secs(150));
        }
        assert_eq!(store.overflowed_of(&login), Some(0), "{kind}");
        let overflowed = store.overflowed_of(&search).unwrap();
        assert!(overflowed > 4_000, "{kind}: {overflowed}");
        assert_eq!(overflowed, store.stats().overflowed);
    }
}

#[test]
fn however_many_limits_are_flooded_another_finds_room() {
    let (store, _) = store(100_000);
    for policy in 0..20 {
        let rule = rule(policy, AlgorithmKind::FixedWindow, "10/day");
        let _ = passing(&store, 0..100_000, &rule);
    }
    let login = rule(20, AlgorithmKind::FixedWindow, "1/minute");
    assert_eq!(passing(&store, 0..190, &login), 190);
    assert_eq!(store.overflowed_of(&login), Some(0));
}

/// Limits that callers bring along share one pool.
#[test]
fn limits_of_one_pool_have_the_room_of_one_limit() {
    let (store, _) = store(1_000);
    for window in 0..2_000 {
        let made_up = rule(1_000 + window, AlgorithmKind::TokenBucket, "5/day");
        let made_up = Rule { id: made_up.id.with_pool(7), ..made_up };
        let _ = allowed(&store, window, &made_up);
    }
    assert_eq!(store.stats().keys, 700);
    let login = rule(2, AlgorithmKind::FixedWindow, "1/minute");
    assert_eq!(passing(&store, 0..150, &login), 150);
}

#[test]
fn a_key_that_finds_room_goes_on_from_what_it_shared() {
    for (kind, staggered) in
        AlgorithmKind::ALL.iter().flat_map(|kind| [(kind, false), (kind, true)])
    {
        for alone in [true, false] {
            let (store, clock) = store(10);
            let brief = rule(1, AlgorithmKind::FixedWindow, "1/second");
            let limit = Rule { staggered, ..rule(1, *kind, "4/hour") };
            let other = rule(3, AlgorithmKind::FixedWindow, "100/hour");
            let pass = |key| match alone {
                true => allowed(&store, key, &limit),
                false => {
                    let charges =
                        [&limit, &other].map(|it| Charge::new(fingerprint(key), Cost::ONE, it));
                    store.settle_now(&charges, &mut Verdicts::new())
                }
            };
            (100..108).for_each(|key| assert!(allowed(&store, key, &brief)));
            assert_eq!((0..3).filter(|_| pass(1)).count(), 3, "{kind}");
            assert_eq!(store.overflowed_of(&limit), Some(3), "{kind}: the same pool as the brief");
            // The short-lived keys are dead, so there is room. One unit is left.
            clock.advance(Span::from_secs(2));
            assert_eq!(ask(&store, 1, Cost::PEEK, &limit).remaining, 1, "{kind}");
            assert_eq!((0..3).filter(|_| pass(1)).count(), 1, "{kind} {staggered} {alone}");
            assert_eq!(store.overflowed_of(&limit), Some(3), "{kind}: it has its own by now");
            clock.advance(Span::from_secs(7_200));
            assert_eq!((0..6).filter(|_| pass(1)).count(), 4, "{kind}: forgotten in time");
        }
    }
}

/// What was taken under a large tier counts for a small tier at most up to its own limit.
#[test]
fn a_key_that_finds_room_under_a_small_tier_keeps_what_it_took_under_a_large_one() {
    for kind in AlgorithmKind::ALL {
        let (store, clock) = store(10);
        let brief = rule(1, AlgorithmKind::FixedWindow, "1/second");
        let (small, large) = (rule(1, *kind, "2/day"), rule(1, *kind, "10/day"));
        (100..108).for_each(|key| assert!(allowed(&store, key, &brief)));
        assert_eq!((0..12).filter(|_| allowed(&store, 1, &large)).count(), 10, "{kind}");
        assert_eq!(store.overflowed_of(&large), Some(12), "{kind}: the same pool as the brief");
        clock.advance(Span::from_secs(2));
        assert!(!allowed(&store, 1, &small), "{kind}");
        assert!(!allowed(&store, 1, &large), "{kind}: all ten were taken");
    }
}

#[test]
fn a_refund_or_a_reset_does_not_loosen_what_is_shared() {
    for kind in AlgorithmKind::ALL {
        let (store, clock) = store(0);
        let limit = rule(1, *kind, "3/hour");
        assert_eq!((0..5).filter(|_| allowed(&store, 1, &limit)).count(), 3, "{kind}");
        let charge = Charge::new(fingerprint(1), Cost::ONE, &limit);
        (0..3).for_each(|_| store.refund_now(&charge));
        assert!(!allowed(&store, 1, &limit), "{kind}: others may have paid for it");
        store.reset_now(&charge);
        assert!(!allowed(&store, 1, &limit), "{kind}: others are counted there too");
        assert_eq!(store.time_to_live(&charge), None, "{kind}: it has no counter of its own");
        clock.advance(Span::from_secs(7_200));
        assert!(allowed(&store, 1, &limit), "{kind}");
    }
}

#[test]
fn a_peek_shows_what_is_shared_and_changes_nothing() {
    for kind in AlgorithmKind::ALL {
        let (store, _) = store(0);
        let limit = rule(1, *kind, "3/hour");
        assert_eq!(ask(&store, 1, Cost::PEEK, &limit).remaining, 3, "{kind}");
        assert_eq!(store.stats().shared, 0, "{kind}");
        assert!(allowed(&store, 1, &limit));
        let peeks = [(); 5].map(|()| ask(&store, 1, Cost::PEEK, &limit).remaining);
        assert_eq!((peeks, store.stats().shared), ([2; 5], 1), "{kind}");
    }
}

/// Keys come and go, share counters and get their own again: no key ever gets more than its limit.
#[test]
fn nobody_gets_more_than_the_limit_however_full_it_is() {
    for seed in 0..20_u64 {
        let (store, clock) = store(20);
        let exact = rule(1, AlgorithmKind::SlidingLog, "3/minute");
        let brief = rule(1, AlgorithmKind::FixedWindow, "2/second");
        let mut admitted: HashMap<u64, Vec<Timestamp>> = HashMap::new();
        let mut random = seed;
        let mut now = START;
        for _ in 0..5_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (random >> 40) % 60;
            let charges = [&exact, &brief].map(|it| Charge::new(fingerprint(key), Cost::ONE, it));
            match random >> 61 {
                0 => {
                    now = now + Span::from_millis(random >> 50 & 1_023);
                    clock.set(now);
                }
                1 => {
                    let _ = allowed(&store, key, &brief);
                }
                which => {
                    let charges = if which == 2 { &charges[..] } else { &charges[..1] };
                    if store.settle_now(charges, &mut Verdicts::new()) {
                        admitted.entry(key).or_default().push(now);
                    }
                }
            }
        }
        for times in admitted.values() {
            let too_many = times.windows(4).find(|four| four[3] < four[0] + Span::from_secs(60));
            assert_eq!(too_many, None, "seed {seed}");
        }
        assert!(store.stats().overflowed > 100);
    }
}

#[test]
fn room_is_measured_in_memory_or_in_keys_and_the_smaller_counts() {
    let keys = |builder: tidegate_store::MemoryStoreBuilder| builder.build().stats().max_keys;
    let in_a_megabyte = keys(MemoryStore::builder().max_memory(1 << 20));
    assert!((5_000..10_000).contains(&in_a_megabyte), "{in_a_megabyte}");
    assert_eq!(keys(MemoryStore::builder().max_memory(1 << 20).max_keys(100)), 100);
    assert_eq!(keys(MemoryStore::builder().max_keys(1 << 40).max_memory(1 << 20)), in_a_megabyte);
    assert_eq!(keys(MemoryStore::builder().max_keys(123)), 123);
    assert!(keys(MemoryStore::builder()) > 0);
}

#[test]
fn new_logs_share_counters_when_logs_have_all_of_their_memory() {
    let clock = ManualClock::at(START);
    let store = MemoryStore::builder().clock(clock.clone()).max_log_bytes(10_000).build();
    let log = rule(1, AlgorithmKind::SlidingLog, "100/hour");
    for _ in 0..20 {
        clock.advance(Span::from_millis(1));
        let _ = passing(&store, 0..500, &log);
    }
    assert_eq!(store.overflowed_of(&log), Some(0));
    let _ = passing(&store, 500..600, &log);
    assert_eq!(store.overflowed_of(&log), Some(100));
    let window = rule(2, AlgorithmKind::SlidingWindow, "1/hour");
    assert_eq!(passing(&store, 0..500, &window), 500, "nobody else is short of memory");
}
