//! A hash map keyed by fingerprints. They are hashes already, so the hasher only folds them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use tidegate_core::Fingerprint;

pub(crate) type FingerprintMap<V> = HashMap<Fingerprint, V, BuildHasherDefault<FingerprintHasher>>;

#[derive(Debug, Default)]
pub(crate) struct FingerprintHasher(u64);

impl Hasher for FingerprintHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = self.0.rotate_left(5) ^ number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
