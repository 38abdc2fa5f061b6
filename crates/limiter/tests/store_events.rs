//! What a limiter says about its store, with a real Redis.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{
    AnyStore, DecisionSource, Limiter, RedisConfig, RedisStore, StoreErrorKind, StoreEvent,
};
use tidegate_testkit::Redis;
use tokio::time::{sleep, timeout};

/// Longer than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

fn config(redis: &Redis) -> RedisConfig {
    redis.url().parse::<RedisConfig>().unwrap().connect_timeout(PATIENCE)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_lost_is_reported_and_so_is_its_return() {
    let redis = Redis::start();
    let builder = RedisStore::builder(config(&redis)).deadline(Duration::from_secs(1));
    let store = builder.connect().await.unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let limiter = Limiter::builder()
        .name("api")
        .limit("1000000/day")
        .store(store)
        .on_store_event(move |event| seen.lock().unwrap().push(event.clone()))
        .build()
        .unwrap();
    assert_eq!(limiter.check("alice").await.source(), DecisionSource::Store);
    assert!(events.lock().unwrap().is_empty());

    redis.kill();
    let until = async |count: usize| {
        while events.lock().unwrap().len() < count {
            let _ = limiter.check("alice").await;
            // Between two polls, so that the machine has time for Redis.
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, until(1)).await.unwrap();
    redis.start_again();
    timeout(PATIENCE, until(2)).await.unwrap();
    let events = events.lock().unwrap();
    assert!(
        matches!(&events[..], [StoreEvent::Lost { .. }, StoreEvent::Found { .. }]),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_store_connects_at_once_or_says_why_not() {
    let redis = Redis::builder().password("right").start();
    assert!(AnyStore::connect(&redis.url(), "secret").await.is_ok());
    let wrong: RedisConfig = format!("redis://:wrong@{}", redis.address()).parse().unwrap();
    let error = RedisStore::builder(wrong.connect_timeout(PATIENCE)).connect().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error}");
    let nobody: RedisConfig = "redis://127.0.0.1:1".parse().unwrap();
    let error = RedisStore::builder(nobody.connect_timeout(PATIENCE)).connect().await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
}

#[test]
fn outside_of_a_runtime_there_is_an_error_and_not_a_panic() {
    let redis = Redis::start();
    let store = RedisStore::builder(config(&redis)).deadline(PATIENCE).build();
    let limiter = Limiter::builder().name("api").limit("2/day").store(store).build().unwrap();
    let mut check = pin!(limiter.check("alice"));
    let Poll::Ready(decision) = check.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("there is nothing to wait for")
    };
    assert_eq!(decision.source(), DecisionSource::Fallback);
    assert!(limiter.store_problem().unwrap().contains("no tokio runtime"));
    // A thread that blocks asks Redis all the same.
    assert_eq!(limiter.check_blocking("alice").source(), DecisionSource::Store);
}
