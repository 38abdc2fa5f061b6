//! A store in Redis, with its clock in hand.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::net::SocketAddr;

use parking_lot::Mutex;
use tidegate_conformance::Subject;
use tidegate_core::{Charge, Span, Timestamp};
use tidegate_store::{Store, Verdicts};
use tidegate_store_redis::{RedisConfig, RedisStore};
use tidegate_testkit::Connection;
use tokio::runtime::Runtime;

/// When keys expire, by a clock in hand: microseconds, which Redis takes for milliseconds, and this
/// much later.
const FAR_AWAY: i64 = 1_000_000_000_000_000;

pub(crate) struct RedisSubject {
    runtime: Runtime,
    store: RedisStore,
    raw: Mutex<Connection>,
    now: Mutex<Timestamp>,
}

impl RedisSubject {
    /// A store at `url`; `raw` is where to look at keys.
    pub(crate) fn new(url: &str, raw: SocketAddr) -> Self {
        let runtime = Runtime::new().unwrap();
        let config: RedisConfig = url.parse().unwrap();
        let patient = std::time::Duration::from_secs(20);
        let store = RedisStore::builder(config).clock_in_hand().deadline(patient).build();
        let raw = Connection::open(raw, patient).unwrap();
        Self { runtime, store, raw: Mutex::new(raw), now: Mutex::default() }
    }
}

impl Subject for RedisSubject {
    fn set_now(&self, now: Timestamp) {
        self.store.set_now(now);
        *self.now.lock() = now;
    }

    fn share_of(&self, cases: u32) -> u32 {
        cases / 20
    }

    fn settle(&self, charges: &[Charge<'_>]) -> (bool, Verdicts) {
        let mut verdicts = Verdicts::new();
        let passes = self.runtime.block_on(self.store.settle(charges, &mut verdicts)).unwrap();
        (passes, verdicts)
    }

    fn refund(&self, charge: &Charge<'_>) {
        self.runtime.block_on(self.store.refund(charge)).unwrap();
    }

    fn reset(&self, charge: &Charge<'_>) {
        self.runtime.block_on(self.store.reset(charge)).unwrap();
    }

    fn time_to_live(&self, charge: &Charge<'_>) -> Option<Span> {
        let name = self.store.key_name(charge);
        match self.raw.lock().call(&[b"PEXPIRETIME", &name[..]]).unwrap().integer() {
            -2 => None,
            -1 => panic!("a key without a time to live"),
            at => {
                let at = Timestamp::from_micros(u64::try_from(at - FAR_AWAY).unwrap());
                Some((at).since(*self.now.lock() + charge.phase()))
            }
        }
    }
}
