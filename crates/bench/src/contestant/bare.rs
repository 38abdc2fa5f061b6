//! The floor: what any keyed limiter with our clock and our keys has to do, and nothing else. A
//! hash, a clock reading, a lock, a lookup, an addition.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;
use tidegate::{Clock, SystemClock};

use super::Contestant;

#[derive(Default)]
pub(super) struct BareTable {
    hashers: [RandomState; 2],
    clock: SystemClock,
    shards: Vec<Shard>,
}

/// A shard on its own cache lines, as in any sharded map.
#[repr(align(128))]
#[derive(Default)]
struct Shard(Mutex<HashTable<Counter>>);

/// A fingerprint, a count and the time of the last access.
struct Counter {
    key: [u64; 2],
    count: u64,
    touched: u64,
}

impl BareTable {
    pub(super) fn new() -> Self {
        let shards = (0..128).map(|_| Shard::default()).collect();
        Self { shards, ..Self::default() }
    }

    fn fingerprint(&self, key: &str) -> [u64; 2] {
        [0, 1].map(|half| {
            let mut hasher = self.hashers[half].build_hasher();
            hasher.write(key.as_bytes());
            hasher.finish()
        })
    }
}

impl Contestant for BareTable {
    fn check(&self, key: &String) -> bool {
        let key = self.fingerprint(key);
        let now = self.clock.now().as_micros();
        let mut table = self.shards[key[1] as usize % self.shards.len()].0.lock();
        let entry = table.entry(key[0], |counter| counter.key == key, |counter| counter.key[0]);
        let mut counter = entry.or_insert(Counter { key, count: 0, touched: now });
        let counter = counter.get_mut();
        counter.count += 1;
        counter.touched = now;
        true
    }
}
