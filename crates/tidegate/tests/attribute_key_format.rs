//! Limited functions that share keys with another limiter. In its own test binary, because a process has
//! one store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

use std::time::Duration;

use tidegate::attribute::{self, FunctionCall};
use tidegate::{Denied, KeyFormat, RedisConfig, RedisStore, rate_limit};
use tidegate_testkit::{Redis, Reply};

#[rate_limit(name = "mails", quota = "3/day", algorithm = "fixed-window", key = |user| user)]
async fn send(user: &str) -> Result<(), Denied> {
    let _ = user;
    Ok(())
}

#[rate_limit(name = "exports", quota = "3/day", algorithm = "fixed-window", scope = user)]
fn export() -> Result<(), Denied> {
    Ok(())
}

#[tokio::test]
async fn the_names_of_keys_are_those_of_callers_and_limits() {
    let redis = Redis::start();
    let config: RedisConfig = redis.url().parse().unwrap();
    let format: KeyFormat = "rate_limit:{entity}:{limit}:{window_start}".parse().unwrap();
    let builder = RedisStore::builder(config).deadline(Duration::from_secs(5));
    attribute::use_store(builder.key_format(format).unwrap().build()).unwrap();
    attribute::resolve_with(|_: &FunctionCall| Some(42_u64)).unwrap();

    send("alice").await.unwrap();
    export().unwrap();
    let keys = redis.command(&["KEYS", "*"]);
    let mut keys: Vec<String> = keys.items().iter().map(Reply::text).collect();
    keys.sort();
    let [export_key, send_key] = &keys[..] else { panic!("{keys:?}") };
    assert!(export_key.starts_with("rate_limit:42:exports:"), "{keys:?}");
    assert!(send_key.starts_with("rate_limit:alice:mails:"), "{keys:?}");

    // The other limiter counts one, and then another.
    for key in [send_key, export_key] {
        redis.command(&["INCRBY", key, "2"]);
    }
    assert!(send("alice").await.is_err());
    assert!(export().is_err());
    assert!(send("bob").await.is_ok());
}
