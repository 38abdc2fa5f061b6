//! Decides all requests of one key in order, without a lookup or a lock.

use tidegate::algorithm::Algorithm;
use tidegate::{Cost, Limit, Timestamp};
use tidegate_core::{Fingerprint, for_each_algorithm};

macro_rules! by_algorithm {
    ($($Name:ident $file:ident $name:literal,)*) => {
        /// Calls `each` with every decision, and returns how many bytes the key's state takes in
        /// the end, including its fingerprint.
        pub(crate) fn decide_all(
            limit: &Limit,
            times: &[Timestamp],
            each: impl FnMut(bool),
        ) -> usize {
            match limit { $(Limit::$Name(algorithm) => decide(algorithm, times, each),)* }
        }
    };
}

for_each_algorithm!(by_algorithm);

/// Does what a store does for a key that it has found.
fn decide<A: Algorithm>(algorithm: &A, times: &[Timestamp], mut each: impl FnMut(bool)) -> usize {
    let mut state = A::State::default();
    for now in times {
        let allowed = algorithm.admits(&state, Cost::ONE, *now);
        if allowed {
            let _ = algorithm.commit(&mut state, Cost::ONE, *now);
        } else {
            algorithm.deny(&mut state, Cost::ONE, *now);
        }
        each(allowed);
    }
    size_of::<Fingerprint>() + size_of::<A::State>() + A::heap_bytes(&state)
}
