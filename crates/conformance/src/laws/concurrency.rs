//! Many callers at one instant.

use std::sync::Barrier;

use tidegate_core::{AlgorithmKind, Charge, Cost, Limit, Quota, Span, Timestamp};

use crate::Subject;
use crate::trace::{fresh, rule};

/// How many times the callers race.
const REPETITIONS: u32 = 2_000;
const CALLERS: u64 = 4;
const CALLS: u64 = 5;

/// Law 7: with a frozen clock exactly as many pass as the limit allows, and what remains for them
/// counts down to zero, each number once.
pub fn concurrent_callers_get_exactly_the_limit(subject: &impl Subject) {
    let now = Timestamp::from_secs(1_763_000_000);
    subject.set_now(now);
    for repetition in 0..subject.share_of(REPETITIONS) {
        for kind in AlgorithmKind::ALL {
            let capacity = 1 + u64::from(repetition) % (CALLERS * CALLS + 5);
            let quota = Quota::new(capacity, Span::from_secs(60)).unwrap();
            let mut remaining = race(subject, Limit::new(*kind, &quota).unwrap());
            remaining.sort_unstable();
            let passed = capacity.min(CALLERS * CALLS);
            let expected: Vec<u64> = (capacity - passed..capacity).collect();
            assert_eq!(remaining, expected, "{kind}, limit {capacity}");
        }
    }
}

/// What remained for each call that passed.
fn race(subject: &impl Subject, limit: Limit) -> Vec<u64> {
    let (rule, key) = (rule(limit), fresh());
    let start = Barrier::new(CALLERS as usize);
    let call = || {
        start.wait();
        let charge = Charge::new(key, Cost::ONE, &rule);
        let verdicts: Vec<_> = (0..CALLS).map(|_| subject.check(&charge)).collect();
        let passed = verdicts.into_iter().filter(|verdict| verdict.allowed);
        passed.map(|verdict| verdict.remaining).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..CALLERS).map(|_| scope.spawn(call)).collect();
        calls.into_iter().flat_map(|call| call.join().expect("a caller")).collect()
    })
}
