//! A layer that shares its counters with another limiter.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use support::{get_from, statuses};
use tidegate_limiter::{KeyFormat, Limiter, RedisConfig, RedisStore};
use tidegate_testkit::{Redis, Reply};
use tidegate_tower::{RateLimitLayer, RequestKey};

fn layer(redis: &Redis, key: RequestKey) -> RateLimitLayer {
    let config: RedisConfig = redis.url().parse().unwrap();
    let format: KeyFormat = "rlaas:rate_limit:{entity}".parse().unwrap();
    let builder = RedisStore::builder(config).deadline(Duration::from_secs(5));
    let store = builder.key_format(format).unwrap().build();
    let limiter = Limiter::builder().algorithm("sliding-log".parse().unwrap());
    RateLimitLayer::limiter(limiter.limit("2/day").store(store).build().unwrap()).by(key)
}

fn app(layer: RateLimitLayer, status: StatusCode) -> Router {
    Router::new().route("/", get(move || async move { status })).layer(layer)
}

#[tokio::test]
async fn counters_are_called_by_the_keys_of_the_layer() {
    let redis = Redis::start();
    let both = RequestKey::all([RequestKey::client_ip(), RequestKey::from_fn(|_| Some(7_u64))]);
    for (key, name) in [(RequestKey::client_ip(), "203.0.113.9"), (both, "203.0.113.9:7")] {
        let app = app(layer(&redis, key), StatusCode::OK);
        assert_eq!(statuses(&app, [get_from("203.0.113.9")]).await, [200]);
        let name = format!("rlaas:rate_limit:{name}");
        assert_eq!(redis.command(&["ZCARD", &name]).integer(), 1);
        // The other limiter counts one.
        redis.command(&["ZADD", &name, "99999999999999", "other"]);
        assert_eq!(statuses(&app, [get_from("203.0.113.9")]).await, [429]);
    }
}

#[tokio::test]
async fn what_does_not_count_is_given_back_there() {
    let redis = Redis::start();
    let layer = layer(&redis, RequestKey::client_ip()).count_failures();
    let app = app(layer, StatusCode::OK);
    assert_eq!(statuses(&app, [get_from("203.0.113.9")]).await, [200]);
    let keys = || redis.command(&["KEYS", "*"]).items().iter().map(Reply::text).collect::<Vec<_>>();
    // The refund runs in the background, and Redis deletes an empty set.
    for _ in 0..500 {
        if keys().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", keys());
}
