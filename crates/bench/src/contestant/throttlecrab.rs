//! The throttlecrab library.
//!
//! It needs `&mut self`, so threads share it behind a lock; its own server keeps it in one task. It
//! runs with its periodic store here, because its adaptive one scans all keys over and over when a
//! million of them are alive.

use std::time::SystemTime;

use parking_lot::Mutex;
use throttlecrab::{PeriodicStore, RateLimiter};

use super::{Contestant, Setting};

pub(super) struct Throttlecrab {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    burst: i64,
    /// Requests that each period adds.
    count: i64,
    /// In seconds.
    period: i64,
}

impl Throttlecrab {
    pub(super) fn new(setting: Setting) -> Self {
        let limiter = Mutex::new(RateLimiter::new(PeriodicStore::new()));
        match setting {
            Setting::Generous => Self { limiter, burst: 800_000, count: 1_000, period: 86_400 },
            Setting::Strict => Self { limiter, burst: 1, count: 1, period: 86_400 },
        }
    }
}

impl Contestant for Throttlecrab {
    #[allow(clippy::disallowed_methods, reason = "this library takes the wall clock's time")]
    fn check(&self, key: &String) -> bool {
        let now = SystemTime::now();
        let decided =
            self.limiter.lock().rate_limit(key, self.burst, self.count, self.period, 1, now);
        decided.is_ok_and(|(allowed, _)| allowed)
    }
}
