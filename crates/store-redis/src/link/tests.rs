//! The link against real servers.

mod cluster;
mod faults;
mod refusals;
mod sentinel;
mod single;
mod tls;

use std::sync::LazyLock;
use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tokio::time::{Instant, sleep, timeout};

use super::failure::CallOutcome;
use super::{LinkDestination, RedisFailure, RedisLink, RedisReply, RedisScript, ScriptCall};
use crate::RedisConfig;

/// Counts, so that anything run twice shows up.
static COUNT: LazyLock<RedisScript> =
    LazyLock::new(|| RedisScript::new("return redis.call('INCRBY', KEYS[1], ARGV[1])"));

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// With enough time to connect on a machine that runs all tests at once.
fn config(url: &str) -> RedisConfig {
    let config: RedisConfig = url.parse().unwrap_or_else(|error| panic!("{error}"));
    config.connect_timeout(Duration::from_secs(2))
}

fn link(url: &str) -> RedisLink {
    link_of(config(url))
}

fn link_of(config: RedisConfig) -> RedisLink {
    let to = LinkDestination::of(&config);
    RedisLink::new(config, to)
}

/// Adds one to a key on lane 0.
async fn count(link: &RedisLink, key: &str) -> Result<i64, RedisFailure> {
    count_on(link, key, 0).await
}

async fn count_on(link: &RedisLink, key: &str, lane: usize) -> Result<i64, RedisFailure> {
    let mut call = ScriptCall::new(&COUNT, &[key]);
    call.number(1);
    let slot = tidegate_testkit::slot_of(key.as_bytes());
    let reply = timeout(PATIENCE, link.run(slot, lane, &call)).await.expect("an end")?;
    match reply {
        RedisReply::Integer(count) => Ok(count),
        other => panic!("{other:?}"),
    }
}

/// Counts until it works, as a caller with many requests would.
async fn count_soon(link: &RedisLink, key: &str, limit: Duration) -> i64 {
    let start = Instant::now();
    loop {
        match count(link, key).await {
            Ok(count) => return count,
            Err(failure) => {
                assert_eq!(failure.outcome, CallOutcome::NotRun, "{failure}");
                assert!(start.elapsed() < limit, "after {limit:?} still: {failure}");
                sleep(Duration::from_millis(2)).await;
            }
        }
    }
}

#[track_caller]
fn assert_failed<T: std::fmt::Debug>(
    result: Result<T, RedisFailure>,
    kind: StoreErrorKind,
    outcome: CallOutcome,
) -> RedisFailure {
    let failure = result.expect_err("a failure");
    assert_eq!((failure.kind, failure.outcome), (kind, outcome), "{failure}");
    failure
}
