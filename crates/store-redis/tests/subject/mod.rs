//! A store in Redis, with a clock under our control.

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_conformance::Subject;
use tidegate_core::{Charge, Span, Timestamp, Verdict};
use tidegate_store::{Store, Verdicts};
use tidegate_store_redis::{RedisConfig, RedisStore, RedisStoreBuilder};
use tidegate_testkit::Connection;
use tokio::runtime::Runtime;

/// When keys expire, by a clock under our control: microseconds, which Redis takes for
/// milliseconds, and this much later.
const FAR_AWAY: i64 = 1_000_000_000_000_000;

const PATIENT: Duration = Duration::from_secs(20);

pub(crate) struct RedisSubject {
    runtime: Runtime,
    store: RedisStore,
    server_of: fn(&[u8]) -> SocketAddr,
    raw: Mutex<HashMap<SocketAddr, Connection>>,
    now: Mutex<Timestamp>,
}

impl RedisSubject {
    /// A store at `url`; `server_of` returns the server that has a key.
    pub(crate) fn new(url: &str, server_of: fn(&[u8]) -> SocketAddr) -> Self {
        Self::with(url, server_of, |builder| builder)
    }

    /// The same, but no script decides: every limit is computed and stored.
    #[allow(dead_code, reason = "not every test has this")]
    pub(crate) fn without_twins(url: &str, server_of: fn(&[u8]) -> SocketAddr) -> Self {
        Self::with(url, server_of, RedisStoreBuilder::without_twins)
    }

    fn with(
        url: &str,
        server_of: fn(&[u8]) -> SocketAddr,
        change: impl FnOnce(RedisStoreBuilder) -> RedisStoreBuilder,
    ) -> Self {
        let runtime = Runtime::new().unwrap();
        let config: RedisConfig = url.parse().unwrap();
        // Long enough for a machine that runs all tests concurrently.
        let config = config.connect_timeout(Duration::from_secs(5));
        let builder = RedisStore::builder(config).manual_clock().deadline(PATIENT);
        let store = change(builder).build();
        Self { runtime, store, server_of, raw: Mutex::default(), now: Mutex::default() }
    }

    fn expires_at(&self, key: &[u8]) -> i64 {
        let (server, mut raw) = ((self.server_of)(key), self.raw.lock());
        let connection =
            raw.entry(server).or_insert_with(|| Connection::open(server, PATIENT).unwrap());
        connection.call(&[b"PEXPIRETIME", key]).unwrap().or_panic().integer()
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
        let passes = self
            .runtime
            .block_on(self.store.settle(charges, None, &mut verdicts).into_future())
            .unwrap();
        (passes, verdicts)
    }

    fn crowd(&self, charge: &Charge<'_>, size: usize) -> Vec<Verdict> {
        let charges = [*charge];
        let mut told = vec![Verdicts::new(); size];
        let settle = |out| Box::pin(self.store.settle(&charges, None, out).into_future());
        let mut settling: Vec<_> = told.iter_mut().map(settle).collect();
        self.runtime.block_on(poll_fn(|context| {
            settling.retain_mut(|one| one.as_mut().poll(context).map(Result::unwrap).is_pending());
            if settling.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        }));
        drop(settling);
        told.into_iter().map(|verdicts| verdicts[0]).collect()
    }

    fn refund(&self, charge: &Charge<'_>) {
        self.runtime.block_on(self.store.refund(charge)).unwrap();
    }

    fn reset(&self, charge: &Charge<'_>) {
        self.runtime.block_on(self.store.reset(charge)).unwrap();
    }

    fn time_to_live(&self, charge: &Charge<'_>) -> Option<Span> {
        match self.expires_at(&self.store.key_name(charge)) {
            -2 => None,
            -1 => panic!("a key without a time to live"),
            at => {
                let at = Timestamp::from_micros(u64::try_from(at - FAR_AWAY).unwrap());
                Some((at).since(*self.now.lock() + charge.phase()))
            }
        }
    }
}
