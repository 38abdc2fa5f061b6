//! Tidegate, through its public API.

use tidegate::{AlgorithmKind, Limiter, MemoryStore};

use super::{Contestant, Setting};

pub(super) struct Tidegate(Limiter);

impl Tidegate {
    pub(super) fn new(kind: AlgorithmKind, setting: Setting) -> Self {
        let quota = match (setting, kind) {
            (Setting::Strict, _) => "1/day",
            (Setting::Generous, AlgorithmKind::TokenBucket) => "1000/day burst 800000",
            // A log stores every request, so the limit is the most that it can hold.
            (Setting::Generous, AlgorithmKind::SlidingLog) => "100000/s",
            (Setting::Generous, _) => "800000/day",
        };
        let store = MemoryStore::builder().max_keys(2_000_000).build();
        #[allow(clippy::expect_used, reason = "the quotas above are good")]
        let limiter =
            Limiter::builder().limit(quota).algorithm(kind).store(store).build().expect("limiter");
        Self(limiter)
    }
}

impl Contestant for Tidegate {
    fn check(&self, key: &String) -> bool {
        self.0.check_now(key).is_allowed()
    }
}
