//! The usual rate limit scripts, run by redis-benchmark.

use std::process::Command;

use anyhow::{Context, bail};
use tidegate::AlgorithmKind;
use tidegate_testkit::Redis;

use super::{Result, warm_up};

/// The algorithms that have a usual script.
pub(super) const KINDS: [AlgorithmKind; 4] = [
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingLog,
    AlgorithmKind::TokenBucket,
];

/// A script and its arguments: limits that are never reached, with one key or with many.
fn script(kind: AlgorithmKind, keys: u64) -> anyhow::Result<(&'static str, [&'static str; 2])> {
    Ok(match kind {
        AlgorithmKind::FixedWindow => {
            (include_str!("../../lua/fixed_window.lua"), ["10000000", "60"])
        }
        AlgorithmKind::SlidingWindow => {
            (include_str!("../../lua/sliding_window.lua"), ["10000000", "60000"])
        }
        AlgorithmKind::SlidingLog => {
            (include_str!("../../lua/sliding_log.lua"), ["100000", "1000000"])
        }
        AlgorithmKind::TokenBucket => {
            let few = ["600", "60000000000"];
            let arguments = if keys == 1 { few } else { ["7200000", "7200000000"] };
            (include_str!("../../lua/token_bucket.lua"), arguments)
        }
        _ => bail!("{kind} has no script to compare with"),
    })
}

/// Runs a script this often, over this many keys.
pub(super) fn run(
    redis: &Redis,
    kind: AlgorithmKind,
    keys: u64,
    decisions: u64,
) -> anyhow::Result<Result> {
    redis.command(&["FLUSHALL"]);
    let (text, arguments) = script(kind, keys)?;
    let sha = redis.command(&["SCRIPT", "LOAD", text]).text();
    // A first run without measurement creates the keys.
    benchmark(redis, &sha, arguments, keys, warm_up(keys, decisions))?;
    let before = redis.cpu_micros();
    let a_second = benchmark(redis, &sha, arguments, keys, decisions)?;
    let cpu = (redis.cpu_micros() - before) as f64 / decisions as f64;
    Ok(Result { cpu, a_second })
}

/// Requests per second.
fn benchmark(
    redis: &Redis,
    sha: &str,
    arguments: [&str; 2],
    keys: u64,
    requests: u64,
) -> anyhow::Result<f64> {
    let (requests, keys) = (requests.to_string(), keys.to_string());
    let options = ["-n", &requests, "-r", &keys, "-P", "16", "-c", "50"];
    let command = ["EVALSHA", sha, "1", "user:__rand_int__", arguments[0], arguments[1]];
    redis_benchmark(redis, &[&options[..], &command[..]].concat())
}

/// Round trips per second of one connection that waits for each: no decision in Redis can be
/// faster.
pub(super) fn round_trips(redis: &Redis) -> anyhow::Result<f64> {
    redis_benchmark(redis, &["-n", "50000", "-c", "1", "PING"])
}

fn redis_benchmark(redis: &Redis, arguments: &[&str]) -> anyhow::Result<f64> {
    let port = redis.port().to_string();
    let output = Command::new("redis-benchmark")
        .args(["-p", &port, "--csv"])
        .args(arguments)
        .output()
        .context("redis-benchmark: apt-get install redis-tools")?;
    let text = String::from_utf8_lossy(&output.stdout);
    // "test","rps","avg_latency_ms",... and the figures below.
    let figures = text.lines().last().context("figures")?;
    let second = figures.split("\",\"").nth(1).with_context(|| text.to_string())?;
    second.trim_matches('"').parse().with_context(|| figures.to_owned())
}
