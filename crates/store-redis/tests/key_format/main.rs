//! Counters that another limiter also writes: what one side takes, the other one sees.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod cluster;
mod concurrency;
mod expiry;
mod limiter_and_plan;
mod other_limiters;
mod our_store;
mod recovery;
mod requests;
mod shared_counts;
mod windows;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_testkit::Redis;

static REDIS: LazyLock<Redis> = LazyLock::new(Redis::start);

/// A user that no other test uses.
fn user() -> String {
    static USERS: AtomicU32 = AtomicU32::new(0);
    format!("user-{}", USERS.fetch_add(1, Ordering::Relaxed))
}

/// The keys of one user.
fn keys_of(user: &str) -> Vec<String> {
    let keys = REDIS.command(&["KEYS", &format!("*{user}[^0-9]*")]);
    let log = REDIS.command(&["KEYS", &format!("*{user}")]);
    keys.items().iter().chain(log.items()).map(tidegate_testkit::Reply::text).collect()
}
