//! All requests of one key, decided one after the other: nothing else to look up or to lock.

use tidegate::algorithm::Algorithm;
use tidegate::{Cost, Limit, Timestamp};
use tidegate_core::{Fingerprint, for_each_algorithm};

macro_rules! by_algorithm {
    ($($Name:ident $file:ident $name:literal,)*) => {
        /// Tells `each` whether every request passes, and returns how many bytes the key's state
        /// takes in the end, including what identifies it.
        pub(crate) fn decide_all(
            limit: &Limit,
            times: &[Timestamp],
            each: impl FnMut(bool),
        ) -> usize {
            match limit { $(Limit::$Name(by) => decide(by, times, each),)* }
        }
    };
}

for_each_algorithm!(by_algorithm);

/// As a store does for a key that it knows.
fn decide<A: Algorithm>(by: &A, times: &[Timestamp], mut each: impl FnMut(bool)) -> usize {
    let mut state = A::State::default();
    for now in times {
        let allowed = by.admits(&state, Cost::ONE, *now);
        if allowed {
            let _ = by.commit(&mut state, Cost::ONE, *now);
        } else {
            by.deny(&mut state, Cost::ONE, *now);
        }
        each(allowed);
    }
    size_of::<Fingerprint>() + size_of::<A::State>() + A::heap_bytes(&state)
}
