//! Limited functions whose counters are in Redis. In its own test binary, because a process has one store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

use std::time::Duration;

use tidegate::attribute::{self, LateSetupError};
use tidegate::{Denied, Limiter, MemoryStore, RedisConfig, RedisStore, rate_limit};
use tidegate_testkit::Redis;

#[rate_limit(name = "shared", quota = "3/day", key = |user| user)]
async fn shared(user: &str) -> Result<(), Denied> {
    let _ = user;
    Ok(())
}

#[rate_limit(name = "shared", quota = "3/day", key = |user| user)]
fn blocking(user: &str) -> Result<(), Denied> {
    let _ = user;
    Ok(())
}

#[rate_limit(name = "closed", quota = "3/day", fail = closed)]
async fn closed() -> Result<(), Denied> {
    Ok(())
}

#[rate_limit(name = "open", quota = "1/day", fail = open)]
fn open() -> Result<(), Denied> {
    Ok(())
}

fn store(redis: &Redis) -> RedisStore {
    let config: RedisConfig = redis.url().parse().unwrap();
    // Slow machines have slow tests, which is not what these are about.
    RedisStore::builder(config).secret("a secret").deadline(Duration::from_secs(5)).build()
}

/// On one thread: a function that blocks it must still get its answer.
#[tokio::test(flavor = "current_thread")]
async fn counters_are_those_of_the_store_and_failures_are_as_said() {
    let redis = Redis::start();
    attribute::use_store(store(&redis)).unwrap();
    shared("alice").await.unwrap();
    blocking("alice").unwrap();
    let elsewhere = Limiter::builder().name("shared").limit("3/day").store(store(&redis));
    assert!(elsewhere.build().unwrap().check("alice").await.is_allowed());
    assert_eq!(shared("alice").await.unwrap_err().name(), "shared");
    assert!(blocking("alice").unwrap_err().retry_after().is_some());
    blocking("bob").unwrap();
    assert_eq!(attribute::use_store(MemoryStore::new()), Err(LateSetupError));

    redis.kill();
    assert!(closed().await.unwrap_err().to_string().contains("store_unavailable"));
    for _ in 0..3 {
        open().unwrap();
    }
}
