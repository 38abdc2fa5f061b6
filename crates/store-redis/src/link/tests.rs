//! Against real servers.

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

use super::failure::Outcome;
use super::{Call, Destination, Failure, Link, Reply, Script};
use crate::RedisConfig;

/// Counts, so that anything run twice shows up.
static COUNT: LazyLock<Script> =
    LazyLock::new(|| Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])"));

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// With enough time to connect on a machine that runs all tests at once.
fn config(url: &str) -> RedisConfig {
    let config: RedisConfig = url.parse().unwrap_or_else(|error| panic!("{error}"));
    config.connect_timeout(Duration::from_secs(2))
}

fn link(url: &str) -> Link {
    link_of(config(url))
}

fn link_of(config: RedisConfig) -> Link {
    let to = Destination::of(&config);
    Link::new(config, to)
}

/// Adds one to a key on lane 0.
async fn count(link: &Link, key: &str) -> Result<i64, Failure> {
    count_on(link, key, 0).await
}

async fn count_on(link: &Link, key: &str, lane: usize) -> Result<i64, Failure> {
    let mut call = Call::new(&COUNT, &[key]);
    call.number(1);
    let slot = tidegate_testkit::slot_of(key.as_bytes());
    let reply = timeout(PATIENCE, link.run(slot, lane, &call)).await.expect("an end")?;
    match reply {
        Reply::Integer(count) => Ok(count),
        other => panic!("{other:?}"),
    }
}

/// Counts until it works, as a caller with many requests would.
async fn count_soon(link: &Link, key: &str, limit: Duration) -> i64 {
    let start = Instant::now();
    loop {
        match count(link, key).await {
            Ok(count) => return count,
            Err(failure) => {
                assert_eq!(failure.outcome, Outcome::NotRun, "{failure}");
                assert!(start.elapsed() < limit, "after {limit:?} still: {failure}");
                sleep(Duration::from_millis(2)).await;
            }
        }
    }
}

#[track_caller]
fn assert_failed<T: std::fmt::Debug>(
    result: Result<T, Failure>,
    kind: StoreErrorKind,
    outcome: Outcome,
) -> Failure {
    let failure = result.expect_err("a failure");
    assert_eq!((failure.kind, failure.outcome), (kind, outcome), "{failure}");
    failure
}
