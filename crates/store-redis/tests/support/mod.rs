//! What the tests of a failing Redis share: counters, callers, and a tally of their answers.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

pub(crate) mod load;

use std::time::Duration;

use tidegate_core::{AlgorithmKind, Charge, Cost, Fingerprint, Limit, Rule, Span};
use tidegate_store::{Store, StoreError, StoreErrorKind, Verdicts};
use tidegate_store_redis::{RedisConfig, RedisStore};
use tokio::time::{Instant, sleep};

/// Everything that a Redis user needs to be allowed, and nothing else: the scripts, what they run,
/// and our keys. It can be handed to the Redis operator as it is.
pub(crate) const ACL: &str = "tidegate on >secret resetkeys ~{???}[bfslvw]???????? resetchannels -@all \
     +eval +evalsha +time +mget +set +psetex +setrange +incrby +del";

/// What the user additionally needs on a Cluster.
pub(crate) const ACL_ON_A_CLUSTER: &str = "+cluster|slots +asking";

/// A URL with that user's name and password.
pub(crate) fn as_limited_user(url: &str) -> String {
    url.replace("://", "://tidegate:secret@")
}

/// A deadline that is missed only by something that hangs for good.
pub(crate) const PATIENT: Duration = Duration::from_secs(10);

/// A store with the deadline that users get.
pub(crate) fn store(url: &str) -> RedisStore {
    RedisStore::builder(config(url)).build()
}

/// A store for tests in which time is not what matters.
pub(crate) fn patient_store(url: &str) -> RedisStore {
    store_within(url, PATIENT)
}

pub(crate) fn store_within(url: &str, deadline: Duration) -> RedisStore {
    RedisStore::builder(config(url)).deadline(deadline).build()
}

/// With time to connect on a machine that is busy with other tests.
fn config(url: &str) -> RedisConfig {
    let config: RedisConfig = url.parse().unwrap_or_else(|error| panic!("{error}"));
    config.connect_timeout(Duration::from_secs(2))
}

/// One subject under one limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    subject: Fingerprint,
    rule: Rule,
}

impl Counter {
    /// The counter of the `n`th subject.
    pub(crate) fn new(kind: AlgorithmKind, quota: &str, n: u64) -> Self {
        Self::of(kind, quota, Fingerprint::new(mix(n), mix(n + 1)))
    }

    /// The counter of a chosen subject. Subjects with the same lower half share a slot.
    pub(crate) fn of(kind: AlgorithmKind, quota: &str, subject: Fingerprint) -> Self {
        let quota = quota.parse().unwrap_or_else(|error| panic!("{error}"));
        let limit = Limit::new(kind, &quota).unwrap_or_else(|error| panic!("{error}"));
        let id = Fingerprint::new(mix(limit.capacity() * 8 + kind as u64), mix(kind as u64));
        Self { subject, rule: Rule { id, limit, enforced: true, staggered: false } }
    }

    /// A fixed window so long that nothing comes back during a test.
    pub(crate) fn long(limit: u64, n: u64) -> Self {
        Self::new(AlgorithmKind::FixedWindow, &format!("{limit}/400d"), n)
    }

    /// One that never denies.
    pub(crate) fn ample(n: u64) -> Self {
        Self::long(1_000_000_000, n)
    }

    pub(crate) fn limit(&self) -> &Limit {
        &self.rule.limit
    }

    pub(crate) fn charge(&self) -> Charge<'_> {
        self.charge_of(Cost::ONE)
    }

    pub(crate) fn charge_of(&self, cost: Cost) -> Charge<'_> {
        Charge::new(self.subject, cost, &self.rule)
    }

    /// Whether one more passes.
    pub(crate) async fn ask(&self, store: &RedisStore) -> Result<bool, StoreError> {
        store.settle(&[self.charge()], None, &mut Verdicts::new()).await
    }

    /// The same with its own time limit.
    pub(crate) async fn ask_within(
        &self,
        store: &RedisStore,
        patience: Span,
    ) -> Result<bool, StoreError> {
        store.settle(&[self.charge()], Some(patience), &mut Verdicts::new()).await
    }

    /// What is left, without taking any of it.
    pub(crate) async fn remaining(&self, store: &RedisStore) -> u64 {
        let mut verdicts = Verdicts::new();
        store.settle(&[self.charge_of(Cost::PEEK)], None, &mut verdicts).await.unwrap();
        verdicts[0].remaining
    }

    /// How many have been counted. Only for algorithms and windows in which nothing comes back.
    pub(crate) async fn used(&self, store: &RedisStore) -> u64 {
        self.rule.limit.capacity() - self.remaining(store).await
    }

    /// Sends requests until there is an answer, as callers do; returns how long that took.
    pub(crate) async fn ask_until_answered(&self, store: &RedisStore, limit: Duration) -> Duration {
        let start = Instant::now();
        while let Err(error) = self.ask(store).await {
            assert!(start.elapsed() < limit, "after {limit:?} still: {error}");
            sleep(Duration::from_millis(2)).await;
        }
        start.elapsed()
    }

    /// Sends requests until there is an error of this kind.
    pub(crate) async fn ask_until(&self, store: &RedisStore, kind: StoreErrorKind) {
        let start = Instant::now();
        while self.ask(store).await.err().is_none_or(|error| error.kind() != kind) {
            assert!(start.elapsed() < PATIENT, "it was never {kind:?}");
            sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Spreads small numbers over the whole range, as a hash would.
pub(crate) fn mix(n: u64) -> u64 {
    let mixed = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
}

#[track_caller]
pub(crate) fn assert_kind<T: std::fmt::Debug>(
    result: Result<T, StoreError>,
    kind: StoreErrorKind,
) -> StoreError {
    let error = result.expect_err("an error");
    assert_eq!(error.kind(), kind, "{error}");
    error
}

/// Whether to test for as long as the promises say, on a machine that has nothing else to do.
pub(crate) fn is_long() -> bool {
    std::env::var_os("TIDEGATE_LONG").is_some()
}
