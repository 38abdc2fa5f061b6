//! The whole suite on every store, and on the models themselves.

use tidegate_conformance::model::ModelStore;
use tidegate_conformance::{LocalSubject, Subject};
use tidegate_store::{ManualClock, MemoryStore};

mod model {
    tidegate_conformance::suite!(super::ModelStore::default);
}

mod memory {
    tidegate_conformance::suite!(super::memory);
}

mod memory_with_one_shard {
    tidegate_conformance::suite!(super::memory_with_one_shard);
}

fn memory() -> impl Subject {
    let clock = ManualClock::default();
    LocalSubject::new(MemoryStore::builder().clock(clock.clone()).build(), clock)
}

/// Every key in one table: the longest probes, and every settlement under one lock.
fn memory_with_one_shard() -> impl Subject {
    let clock = ManualClock::default();
    LocalSubject::new(MemoryStore::builder().clock(clock.clone()).shards(1).build(), clock)
}
