//! Measures a Redis that is far away: how many decisions miss their deadline, by the round trip.
//!
//! Beside them, pings run over the same wire, one at a time: a late ping is due to the wire or the machine,
//! not to Tidegate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use tidegate::config::PolicySource as Text;
use tidegate::{Cost, DecisionSource, PlanLimiter, RedisConfig, RedisStore};
use tidegate_testkit::{Connection, Mode, Proxy, Redis};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::figures::Figures;
use crate::stopwatch::Stopwatch;
use crate::table;

/// The load, and how long a decision may take.
pub(crate) struct Setting {
    pub(crate) deadline: Duration,
    pub(crate) rate: u32,
    pub(crate) seconds: u32,
}

/// Measures at each of these round trips.
pub(crate) fn measure(
    round_trips: &[Duration],
    setting: &Setting,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let (redis, mut rows) = (Redis::start(), Vec::new());
    for round_trip in round_trips {
        let proxy = Proxy::start(redis.address());
        proxy.set_mode(Mode::Delay(*round_trip));
        let (mut results, pings) = at_a_distance(&proxy, setting)?;
        rows.push(row(*round_trip, &mut results, &pings, setting.deadline, figures));
    }
    let header = [
        "round trip",
        "decisions",
        "by the fallback",
        "median",
        "99 %",
        "99.9 %",
        "pings",
        "late pings",
    ];
    let title =
        format!("Far Redis: {} decisions a second, within {:?}", setting.rate, setting.deadline);
    table::print(&title, &header.map(str::to_owned), &rows);
    Ok(())
}

/// The decisions of all callers: their latencies, and how many were made by the fallback.
#[derive(Default)]
struct FarResults {
    millis: Vec<f64>,
    by_fallback: usize,
}

fn at_a_distance(proxy: &Proxy, setting: &Setting) -> anyhow::Result<(FarResults, Vec<f64>)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let pinging = scope.spawn(|| ping(proxy, &is_over));
        let workers: Vec<_> =
            (0..WORKERS).map(|number| scope.spawn(move || work(proxy, setting, number))).collect();
        let mut all = FarResults::default();
        let mut failed = None;
        for worker in workers {
            match worker.join().map_err(|_| anyhow::anyhow!("a worker panicked")) {
                Ok(Ok(results)) => {
                    all.millis.extend(results.millis);
                    all.by_fallback += results.by_fallback;
                }
                Ok(Err(error)) | Err(error) => failed = Some(error),
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let pings = pinging.join().map_err(|_| anyhow::anyhow!("the pinger panicked"))??;
        failed.map_or(Ok((all, pings)), Err)
    })
}

/// How long each ping took, in milliseconds.
fn ping(proxy: &Proxy, is_over: &AtomicBool) -> anyhow::Result<Vec<f64>> {
    let mut client = Connection::open(proxy.address(), Duration::from_secs(5))?;
    let mut pings = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let watch = Stopwatch::start();
        client.call(&["PING"])?;
        pings.push(watch.nanos() / 1e6);
    }
    Ok(pings)
}

/// A thread with its own connections, like a worker of a server.
fn work(proxy: &Proxy, setting: &Setting, number: u32) -> anyhow::Result<FarResults> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let config: RedisConfig = proxy.url().parse()?;
        let store = RedisStore::builder(config).secret("bench").build();
        let text = format!(
            "defaults: {{ store_deadline: {}ms }}\n\
             policies: [{{ name: far, key: [user], limits: [1000000/hour] }}]",
            setting.deadline.as_millis()
        );
        let limiter = Arc::new(PlanLimiter::load(&Text::new("bench", text)?, store)?);
        // Opens the connections and measures the round trip before the load starts.
        for _ in 0..50 {
            let _ = limiter.check(&[("user", "first")], Cost::ONE).await;
        }
        let pause = Duration::from_secs(1) * CALLERS * WORKERS / setting.rate;
        let (begin, mut callers) = (now(), JoinSet::new());
        for caller in 0..CALLERS {
            let limiter = Arc::clone(&limiter);
            let start = begin + pause * (caller * WORKERS + number) / (CALLERS * WORKERS);
            let end = begin + Duration::from_secs(1) * setting.seconds;
            callers.spawn(async move {
                let (mut results, mut turn) = (FarResults::default(), start);
                while turn < end {
                    sleep_until(turn.into()).await;
                    // A late caller skips turns instead of catching up in a burst.
                    turn = (turn + pause).max(now());
                    let user = format!("{number}-{caller}-{}", results.millis.len() % KEYS);
                    let watch = Stopwatch::start();
                    let decision = limiter.check(&[("user", &*user)], Cost::ONE).await;
                    results.millis.push(watch.nanos() / 1e6);
                    results.by_fallback +=
                        usize::from(decision.source() == DecisionSource::Fallback);
                }
                results
            });
        }
        let mut all = FarResults::default();
        while let Some(results) = callers.join_next().await {
            let results = results.context("a caller")?;
            all.millis.extend(results.millis);
            all.by_fallback += results.by_fallback;
        }
        Ok(all)
    })
}

fn row(
    round_trip: Duration,
    results: &mut FarResults,
    pings: &[f64],
    deadline: Duration,
    figures: &mut Figures,
) -> Vec<String> {
    results.millis.sort_unstable_by(f64::total_cmp);
    let count = results.millis.len().max(1);
    let at = |part: f64| results.millis.get((count as f64 * part) as usize).copied().unwrap_or(0.0);
    let millis = |part| format!("{:.2} ms", at(part));
    let percent = |part: usize, all: usize| 100.0 * part as f64 / all.max(1) as f64;
    let share = |part, all| format!("{:.3} %", percent(part, all));
    let late = pings.iter().filter(|millis| **millis > deadline.as_secs_f64() * 1e3).count();
    for (what, unit, value) in [
        ("decisions", "decisions", count as f64),
        ("without Redis", "%", percent(results.by_fallback, count)),
        ("median", "ms", at(0.5)),
        ("99 %", "ms", at(0.99)),
        ("late pings", "%", percent(late, pings.len())),
    ] {
        figures.add(format!("{round_trip:?}, {what}"), unit, value, []);
    }
    vec![
        format!("{round_trip:?}"),
        results.millis.len().to_string(),
        share(results.by_fallback, count),
        millis(0.5),
        millis(0.99),
        millis(0.999),
        pings.len().to_string(),
        share(late, pings.len()),
    ]
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}

/// As many workers as a server has on the reference machine.
const WORKERS: u32 = 2;
/// Callers of each worker.
const CALLERS: u32 = 32;
/// Keys of each caller.
const KEYS: usize = 100;
