//! A Redis that accepts connections and never answers. A binary of its own, since it measures time and
//! memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{Counter, is_long, store};
use tidegate_store_redis::{RedisStore, RedisStoreBuilder};
use tidegate_testkit::Redis;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

const A_TICK: Duration = Duration::from_millis(1);
/// 2,000 requests a second.
const IN_A_TICK: u64 = 2;

/// How long the answers to this much traffic took, quickest first.
async fn traffic(store: &Arc<RedisStore>, time: Duration) -> Vec<Duration> {
    let (start, mut tick) = (Instant::now(), interval(A_TICK));
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut callers, mut times) = (JoinSet::new(), Vec::new());
    let mut n = 0;
    while start.elapsed() < time {
        tick.tick().await;
        for _ in 0..IN_A_TICK {
            n += 1;
            let store = Arc::clone(store);
            callers.spawn(async move {
                let asked = Instant::now();
                let _ = Counter::ample(n % 1_000).ask(&store).await;
                asked.elapsed()
            });
        }
        while let Some(done) = callers.try_join_next() {
            times.push(done.expect("no caller panics"));
        }
    }
    times.extend(callers.join_all().await);
    times.sort();
    times
}

fn per_mille(times: &[Duration], rank: usize) -> Duration {
    times[(times.len() * rank / 1_000).min(times.len() - 1)]
}

/// Memory in use by this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_hangs_holds_nobody_up_takes_no_memory_and_is_found_again() {
    let redis = Redis::start();
    let store = Arc::new(store(&redis.url()));
    Counter::ample(0).ask_until_answered(&store, Duration::from_secs(3)).await;
    traffic(&store, Duration::from_secs(1)).await;
    let before = resident();
    redis.pause();
    let hangs = Duration::from_secs(if is_long() { 10 } else { 3 });
    let times = traffic(&store, hangs).await;
    let grown = resident().saturating_sub(before);
    redis.resume();
    let back = Counter::ample(0).ask_until_answered(&store, Duration::from_secs(5)).await;

    let deadline = RedisStoreBuilder::DEFAULT_DEADLINE;
    let (p99, p999) = (per_mille(&times, 990), per_mille(&times, 999));
    let count = times.len();
    println!("{count} decisions: p99 {p99:?}, p99.9 {p999:?}, {grown} bytes, back in {back:?}");
    // A busy machine delays callers, too; but Redis hangs for this whole time.
    assert!(p999 < hangs / 3, "p99.9 {p999:?}");
    assert!(grown < 8 << 20, "{grown} bytes more");
    if is_long() {
        assert!(p99 <= deadline + Duration::from_millis(5), "p99 {p99:?}");
        assert!(p999 <= deadline + Duration::from_millis(100), "p99.9 {p999:?}");
        assert!(back <= Duration::from_secs(1), "back after {back:?}");
    }
    // All connections must be back, and not just the one that was probed.
    for n in 0..8 {
        Counter::ample(n).ask_until_answered(&store, Duration::from_secs(5)).await;
    }
}
