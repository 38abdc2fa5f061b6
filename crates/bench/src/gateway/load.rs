//! Generates load for the proxies: wrk at the highest possible rate, h2load at a fixed rate.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};
use tidegate_testkit::peer;

use super::OF_OTHERS;

/// The results of a proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) requests: u64,
    pub(crate) a_second: f64,
    /// Microseconds of its processor time per request.
    pub(crate) cpu: f64,
    pub(crate) p99: f64,
}

/// As many requests as 64 connections can make.
pub(crate) fn run(port: u16, is_denied: bool, seconds: u64) -> anyhow::Result<Measured> {
    let wrk = peer("wrk").context("wrk is not installed: run scripts/peers")?;
    let output = Command::new("taskset")
        .args(["-c", OF_OTHERS])
        .arg(wrk)
        .args(["-t1", "-c64", "--latency", &format!("-d{seconds}s")])
        .arg(format!("http://127.0.0.1:{port}/"))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success() && !text.contains("Socket errors"), "wrk: {text}");
    ensure!(text.contains("Non-2xx") == is_denied, "not the expected answers: {text}");
    let after = |what: &str| {
        let line = text.lines().map(str::trim).find(|line| line.starts_with(what));
        line.and_then(|line| line.strip_prefix(what)).map(str::trim).context(format!("no {what}"))
    };
    let requests = text.lines().find(|line| line.contains(" requests in "));
    let requests = requests.and_then(|line| line.split_whitespace().next()?.parse().ok());
    Ok(Measured {
        requests: requests.context("no number of requests")?,
        a_second: after("Requests/sec:")?.parse()?,
        cpu: 0.0,
        p99: micros(after("99%")?).context("no p99")?,
    })
}

/// The 99th percentile of the latency at this many requests per second, in microseconds.
pub(crate) fn paced(port: u16, rate: u64, seconds: u64) -> anyhow::Result<f64> {
    const CLIENTS: u64 = 16;
    let h2load = peer("h2load").context("h2load is not installed: run scripts/peers")?;
    let log: PathBuf = std::env::temp_dir().join(format!("tidegate-h2load-{}", std::process::id()));
    let output = Command::new("taskset")
        .args(["-c", OF_OTHERS])
        .arg(h2load)
        .args(["--h1", "-t1", &format!("-c{CLIENTS}"), &format!("--rps={}", rate / CLIENTS)])
        .arg(format!("-n{}", rate * seconds))
        .arg("--log-file")
        .arg(&log)
        .arg(format!("http://127.0.0.1:{port}/"))
        .output()?;
    ensure!(output.status.success(), "h2load: {output:?}");
    let text = std::fs::read_to_string(&log)?;
    let _ = std::fs::remove_file(&log);
    let column = |line: &str| line.split('\t').nth(2).and_then(|it| it.parse::<u64>().ok());
    let mut took: Vec<u64> = text.lines().filter_map(column).collect();
    took.sort_unstable();
    let p99 = took.get(took.len() * 99 / 100).context("no requests")?;
    Ok(*p99 as f64)
}

/// The median round, by what a request costs.
pub(crate) fn median(mut all: Vec<Measured>) -> Option<Measured> {
    all.sort_by(|a, b| a.cpu.total_cmp(&b.cpu));
    all.get(all.len() / 2).copied()
}

/// `1.23ms`, `456.00us` or `1.00s`.
fn micros(text: &str) -> Option<f64> {
    for (unit, factor) in [("us", 1.0), ("ms", 1e3), ("s", 1e6)] {
        if let Some(number) = text.strip_suffix(unit) {
            return number.parse::<f64>().ok().map(|it| it * factor);
        }
    }
    None
}
