//! Envoy's rate limit service: our server beside a bare one that decides nothing, both over gRPC.
//!
//! Each server is a process on one core with one current_thread runtime; the load comes from the
//! other core.

mod frames;
mod load;
mod server;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use anyhow::{Context, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};
use tidegate_testkit::Redis;

use self::load::{Load, Measured};
use crate::figures::Figures;
use crate::median::{median, median_ratio};
use crate::{running, table};

pub(crate) use self::server::serve;

/// The servers that are compared.
const CONTESTANTS: [&str; 2] = ["tonic, bare", "tidegate"];

/// The workloads: a name, what the server's limit makes of all calls (`allowed` or `denied`), and
/// the number of keys.
const WORKLOADS: [(&str, &str, u32); 4] = [
    ("allowed, 1 key", "allowed", 1),
    ("allowed, 1M keys", "allowed", 1_000_000),
    ("denied, 1 key", "denied", 1),
    ("denied, 1M keys", "denied", 1_000_000),
];

const SERVERS_CORE: usize = 0;
const CLIENTS_CORE: usize = 1;

/// Measures our server beside the bare one, and then our server with the counters in Redis.
pub(crate) fn compare(rounds: usize, calls: u64, figures: &mut Figures) -> anyhow::Result<()> {
    pin(CLIENTS_CORE);
    in_memory(rounds, calls, figures)?;
    in_redis(rounds, calls, figures)
}

/// Runs all workloads, with the counters in memory and the contestants in turn.
fn in_memory(rounds: usize, calls: u64, figures: &mut Figures) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for (name, limit, keys) in WORKLOADS {
        eprintln!("{name} ...");
        let servers = CONTESTANTS.map(|contestant| Server::start(contestant, limit));
        let mut measured = CONTESTANTS.map(|_| Vec::new());
        let servers = servers.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        // Every key once, so that none is new when the measurement starts.
        for server in &servers {
            server.measure(keys, keys.max(20_000).into())?;
        }
        for _ in 0..rounds {
            for (server, measured) in servers.iter().zip(&mut measured) {
                measured.push(server.measure(keys, calls)?);
            }
        }
        let [bare, ours] = &measured;
        // The bare server allows everything.
        let denied = median(ours.iter().map(|it| it.denied)).context("a round")?;
        let expected = if limit == "denied" { 1.0 } else { 0.0 };
        ensure!((denied - expected).abs() < 1e-9, "{name}: {denied} are denied");
        let a_second = median(ours.iter().map(|it| it.a_second)).context("a round")?;
        figures.add("ShouldRateLimit", "per second", a_second, [("bare", of_bare(ours, bare)?)]);
        for (contestant, rounds) in CONTESTANTS.iter().zip([bare, ours]) {
            rows.push(row(&format!("{name}: {contestant}"), rounds, bare)?);
        }
    }
    table::print(
        "Envoy RLS over gRPC, 8 connections x 8 streams, a core each",
        &HEADER.map(str::to_owned),
        &rows,
    );
    Ok(())
}

/// Measures our server alone with the counters in Redis. Redis runs on the load's core,
/// not on the server's.
fn in_redis(rounds: usize, calls: u64, figures: &mut Figures) -> anyhow::Result<()> {
    let redis = Redis::start();
    let mut rows = Vec::new();
    for keys in [1, 100_000] {
        eprintln!("Redis, {keys} keys ...");
        let server = Server::start(&redis.url(), "allowed")?;
        server.measure(keys, 20_000)?;
        let ours: Result<Vec<_>, _> = (0..rounds).map(|_| server.measure(keys, calls)).collect();
        let ours = ours?;
        let cpu = median(ours.iter().map(|it| it.cpu)).context("a round")?;
        figures.add("with Redis, server CPU", "µs", cpu, []);
        rows.push(row(&format!("allowed: {keys} keys"), &ours, &ours)?);
    }
    table::print("The same with Redis", &HEADER.map(str::to_owned), &rows);
    Ok(())
}

/// "Of the first" is the ratio to the bare server, or to the same row where there is no bare
/// server.
const HEADER: [&str; 7] =
    ["", "decisions/s", "of the first", "server CPU, us", "p50, us", "p99, us", "p99.9, us"];

/// A row of the table: the median of each figure, and the ratio to `bare`.
fn row(name: &str, rounds: &[Measured], bare: &[Measured]) -> anyhow::Result<Vec<String>> {
    let of_bare = of_bare(rounds, bare)?;
    let middle =
        |figure: fn(&Measured) -> f64| median(rounds.iter().map(figure)).context("a round");
    Ok(vec![
        name.to_owned(),
        format!("{:.0}", middle(|one| one.a_second)?),
        format!("{of_bare:.2}"),
        format!("{:.2}", middle(|one| one.cpu)?),
        format!("{:.0}", middle(|one| one.p50)?),
        format!("{:.0}", middle(|one| one.p99)?),
        format!("{:.0}", middle(|one| one.p999)?),
    ])
}

/// The ratio of requests per second to the bare server's.
fn of_bare(rounds: &[Measured], bare: &[Measured]) -> anyhow::Result<f64> {
    let [ours, bare] = [rounds, bare].map(|rounds| rounds.iter().map(|it| it.a_second));
    median_ratio(ours, bare).context("a round")
}

/// A server in its own process, which ends when this is dropped.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    /// Starts one of [`CONTESTANTS`], or our server with its counters in the Redis at a URL.
    fn start(contestant: &str, limit: &str) -> anyhow::Result<Self> {
        let mut process = running::servers()?
            .args(["grpc", contestant, limit])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().context("its output")?).read_line(&mut line)?;
        let port = line.trim().parse().with_context(|| format!("{contestant} printed {line:?}"))?;
        Ok(Self { process, port })
    }

    fn measure(&self, keys: u32, calls: u64) -> anyhow::Result<Measured> {
        let before = self.cpu_micros()?;
        let measured = Load { port: self.port, keys, calls }.run()?;
        let cpu = (self.cpu_micros()? - before) / measured.calls as f64;
        Ok(Measured { cpu, ..measured })
    }

    /// The processor time that the server has used so far.
    fn cpu_micros(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        let fields = stat.rsplit_once(") ").context("/proc/pid/stat")?.1;
        let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<f64>);
        let ticks: f64 = ticks.sum::<Result<f64, _>>()?;
        Ok(ticks * 1e6 / rustix::param::clock_ticks_per_second() as f64)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Pins this thread, and the processes that it starts, to one core, if there is such a core.
fn pin(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    if sched_setaffinity(None, &cores).is_err() {
        eprintln!("cannot pin to core {core}: servers and load share the cores");
    }
}
