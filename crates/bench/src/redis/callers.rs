//! Load on Tidegate with Redis: callers that each wait for a decision before they request the next.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, bail};
use tidegate::{AlgorithmKind, DecisionSource, Limiter, Precision, RedisConfig, RedisStore};
use tidegate_testkit::Redis;
use tokio::runtime::{Builder, Runtime};

use super::{Result, warm_up};
use crate::stopwatch::Stopwatch;

/// The default number of concurrent callers.
pub(super) const CALLERS: u64 = 64;
/// As many requests as redis-benchmark has in flight: 50 clients with 16 requests each.
pub(super) const AS_MANY: u64 = 800;

/// A load of decisions.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) kind: AlgorithmKind,
    /// Threads that share the callers, each with its own runtime and connections, like a server's.
    pub(super) workers: u64,
    pub(super) callers: u64,
    pub(super) keys: u64,
    pub(super) decisions: u64,
    pub(super) precision: Precision,
    pub(super) url: String,
}

/// Runs a load, with `cpu` as the meter of Redis's processor.
pub(super) fn run(load: &Load, cpu: impl Fn() -> u64) -> anyhow::Result<Result> {
    let line = Arc::new(Barrier::new(load.workers as usize + 1));
    let share = |all: u64| all / load.workers;
    let part =
        Load { callers: share(load.callers), decisions: share(load.decisions), ..load.clone() };
    let mut workers = Vec::new();
    for runtime in (0..load.workers).map(|_| Builder::new_current_thread().enable_all().build()) {
        let (part, line, runtime) = (part.clone(), line.clone(), runtime?);
        workers.push(thread::spawn(move || work(&part, &line, &runtime)));
    }
    line.wait();
    let (before, watch) = (cpu(), Stopwatch::start());
    line.wait();
    for worker in workers {
        let outcome = worker.join().map_err(|_| anyhow!("a worker panicked"))??;
        if outcome.fallbacks > 0 || outcome.denied > 0 {
            bail!("{} were denied and {} had no store", outcome.denied, outcome.fallbacks);
        }
    }
    let (seconds, decisions) = (watch.nanos() / 1e9, (part.decisions * load.workers) as f64);
    let cpu = (cpu() - before) as f64 / decisions;
    Ok(Result { cpu, a_second: decisions / seconds })
}

/// One worker's part: warms up, waits for the other workers, and runs its callers.
fn work(load: &Load, line: &Barrier, runtime: &Runtime) -> anyhow::Result<Outcome> {
    runtime.block_on(async {
        let quota = generous(load.kind, load.keys);
        let limiter = limiter(load.kind, quota, load.precision, &load.url).map(Arc::new);
        if let Ok(limiter) = &limiter {
            drive(limiter, load.callers, load.keys, warm_up(load.keys, load.decisions)).await;
        }
        line.wait();
        line.wait();
        Ok(drive(&limiter?, load.callers, load.keys, load.decisions).await)
    })
}

/// The shares of requests that were denied and that reached Redis.
pub(super) struct Share {
    pub(super) denied: f64,
    pub(super) asked: f64,
}

/// Ten sources at a hundred times their limit.
pub(super) fn share_that_reaches_redis(
    redis: &Redis,
    kind: AlgorithmKind,
    decisions: u64,
) -> anyhow::Result<Share> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let limiter = Arc::new(limiter(kind, "100/s", Precision::default(), &redis.url())?);
        let outcome = drive(&limiter, CALLERS, 10, decisions).await;
        let all = decisions as f64;
        Ok(Share { denied: outcome.denied as f64 / all, asked: outcome.asked as f64 / all })
    })
}

fn limiter(
    kind: AlgorithmKind,
    quota: &str,
    precision: Precision,
    url: &str,
) -> anyhow::Result<Limiter<RedisStore>> {
    let config: RedisConfig = url.parse()?;
    // This measures throughput, so the deadline is generous.
    let store = RedisStore::builder(config).deadline(Duration::from_secs(5)).build();
    let limiter = Limiter::builder().limit(quota).algorithm(kind).precision(precision);
    Ok(limiter.store(store).build()?)
}

/// A limit that is never reached. With many keys, a bucket fills up so slowly that its key still exists
/// at the next request.
const fn generous(kind: AlgorithmKind, keys: u64) -> &'static str {
    match kind {
        AlgorithmKind::TokenBucket if keys > 1 => "500/hour burst 1000",
        AlgorithmKind::TokenBucket => "100000/minute burst 100000000",
        AlgorithmKind::SlidingLog => "100000/s",
        _ => "10000000/minute",
    }
}

#[derive(Default)]
struct Outcome {
    denied: u64,
    fallbacks: u64,
    asked: u64,
}

async fn drive(
    limiter: &Arc<Limiter<RedisStore>>,
    callers: u64,
    keys: u64,
    decisions: u64,
) -> Outcome {
    let left = Arc::new(AtomicU64::new(decisions));
    let callers: Vec<_> = (0..callers)
        .map(|caller| tokio::spawn(call(limiter.clone(), left.clone(), keys, caller)))
        .collect();
    let mut sum = Outcome::default();
    for caller in callers {
        let outcome = caller.await.unwrap_or_default();
        sum.denied += outcome.denied;
        sum.fallbacks += outcome.fallbacks;
        sum.asked += outcome.asked;
    }
    sum
}

/// One caller, until all decisions were made.
async fn call(
    limiter: Arc<Limiter<RedisStore>>,
    left: Arc<AtomicU64>,
    keys: u64,
    caller: u64,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut random = caller.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok()
    {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let decision = limiter.check(&(random % keys)).await;
        outcome.denied += u64::from(!decision.is_allowed());
        outcome.asked += u64::from(decision.source() == DecisionSource::Store);
        outcome.fallbacks += u64::from(decision.source() == DecisionSource::Fallback);
        // A caller that gets its answer immediately yields to the others.
        if matches!(decision.source(), DecisionSource::DenyCache | DecisionSource::Lease) {
            tokio::task::yield_now().await;
        }
    }
    outcome
}
