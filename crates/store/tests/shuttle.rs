//! The shard code under a scheduler that tries many interleavings.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p tidegate-store --test shuttle`; empty otherwise.

#![cfg(shuttle)]
#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::sync::Arc;

use shuttle::{check_pct, check_random, thread};
use tidegate_core::{AlgorithmKind, Charge, Cost, Fingerprint, Limit, Rule, Timestamp};
use tidegate_store::{LocalStore, ManualClock, MemoryStore, Store, Verdicts};

const SCHEDULES: usize = 2_000;

fn rule(id: u64, quota: &str) -> Rule {
    let kind = AlgorithmKind::ALL[id as usize % AlgorithmKind::ALL.len()];
    let limit = Limit::new(kind, &quota.parse().unwrap()).unwrap();
    Rule { id: Fingerprint::new(id << 60, id), limit, enforced: true, staggered: false }
}

fn store(max_keys: usize, shards: usize) -> Arc<MemoryStore<ManualClock>> {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    Arc::new(MemoryStore::builder().clock(clock).max_keys(max_keys).shards(shards).build())
}

fn key(n: u64) -> Fingerprint {
    Fingerprint::new(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), n)
}

/// Runs `work` in threads and returns each result.
fn in_threads<T: Send + 'static>(
    count: u64,
    work: impl Fn(u64) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let work = Arc::new(work);
    let threads: Vec<_> = (0..count)
        .map(|number| {
            let work = Arc::clone(&work);
            thread::spawn(move || work(number))
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn callers_of_one_key_get_exactly_the_limit() {
    check_random(
        || {
            for id in 0..4 {
                let store = store(100, 1);
                let remaining = in_threads(3, move |number| {
                    let rule = rule(id, "4/minute");
                    let charges = [Charge::new(key(1), Cost::ONE, &rule); 2];
                    let mut verdicts = Verdicts::new();
                    if number == 0 {
                        let tell = |_: &_, verdict: &_| verdicts.push(*verdict);
                        assert!(store.settle_each(charges, tell));
                    } else {
                        for charge in charges {
                            store.settle_now(&[charge], &mut verdicts);
                        }
                    }
                    verdicts
                });
                let mut left: Vec<_> = remaining.iter().flatten().filter(|v| v.allowed).collect();
                left.sort_by_key(|verdict| verdict.remaining);
                let left: Vec<_> = left.iter().map(|verdict| verdict.remaining).collect();
                assert_eq!(left, [0, 1, 2, 3]);
            }
        },
        SCHEDULES,
    );
}

/// Requests over several shards in different orders: no deadlock, and both counters stay equal.
#[test]
fn several_limits_neither_deadlock_nor_tear() {
    let scenario = || {
        let store = store(100, 4);
        let settled = Arc::clone(&store);
        let passed = in_threads(3, move |number| {
            let rules = [rule(1, "3/minute"), rule(2, "3/minute")];
            let mut charges = rules.each_ref().map(|rule| Charge::new(key(7), Cost::ONE, rule));
            if number % 2 == 0 {
                charges.reverse();
            }
            let pass = || settled.settle_now(&charges, &mut Verdicts::new());
            [pass(), pass()].iter().filter(|passed| **passed).count()
        });
        assert_eq!(passed.iter().sum::<usize>(), 3);
        for id in [1, 2] {
            let (rule, mut verdicts) = (rule(id, "3/minute"), Verdicts::new());
            store.settle_now(&[Charge::new(key(7), Cost::PEEK, &rule)], &mut verdicts);
            assert_eq!(verdicts[0].remaining, 0);
        }
    };
    check_random(scenario, SCHEDULES);
    check_pct(scenario, SCHEDULES, 3);
}

/// New keys race for the last slots: the bound holds, and keys that do not fit share a counter.
#[test]
fn a_full_store_stays_full() {
    check_random(
        || {
            let store = store(2, 2);
            let settled = Arc::clone(&store);
            let passed = in_threads(4, move |number| {
                let rule = rule(0, "1/minute");
                settled
                    .settle_now(&[Charge::new(key(number), Cost::ONE, &rule)], &mut Verdicts::new())
            });
            let passed = passed.iter().filter(|passed| **passed).count();
            // Two keys have their own slots and one passes through the shared counter. A claim that is
            // about to be released can make another key share.
            assert!((1..=3).contains(&passed), "{passed}");
            assert!(store.stats().keys <= 2);
        },
        SCHEDULES,
    );
}

/// A key finds no room, shares a counter, and finds room when another key is forgotten, while others
/// check the same key: together they get exactly the limit.
#[test]
fn a_key_that_moves_gets_exactly_the_limit() {
    check_random(
        || {
            for id in 0..4 {
                let store = store(1, 1);
                let settled = Arc::clone(&store);
                let passed = in_threads(3, move |number| {
                    let rule = rule(id, "2/minute");
                    let charge = |n| Charge::new(key(n), Cost::ONE, &rule);
                    if number == 0 {
                        settled.settle_now(&[charge(1)], &mut Verdicts::new());
                        settled.reset_now(&charge(1));
                        return 0;
                    }
                    let pass = || settled.settle_now(&[charge(2)], &mut Verdicts::new());
                    [pass(), pass()].iter().filter(|passed| **passed).count()
                });
                // The other key may have taken a unit of the counter that they share.
                let passed = passed.iter().sum::<usize>();
                assert!((1..=2).contains(&passed), "{passed}");
            }
        },
        SCHEDULES,
    );
}
