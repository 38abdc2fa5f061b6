//! governor, keyed, as its documentation shows it: dashmap, standard hasher, quanta clock.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::{Contestant, Setting};

pub(super) struct Governor(DefaultKeyedRateLimiter<String>);

impl Governor {
    pub(super) fn new(setting: Setting) -> Self {
        let (period, burst) = match setting {
            Setting::Generous => (Duration::from_secs(86_400) / 1_000, 800_000),
            Setting::Strict => (Duration::from_secs(86_400), 1),
        };
        let burst = NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::with_period(period).unwrap_or(Quota::per_second(burst));
        let quota = quota.allow_burst(burst);
        Self(RateLimiter::keyed(quota))
    }
}

impl Contestant for Governor {
    fn check(&self, key: &String) -> bool {
        self.0.check_key(key).is_ok()
    }
}
