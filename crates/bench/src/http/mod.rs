//! Checks over HTTP: our server beside a hyper server that decides nothing, and beside
//! throttlecrab's. Each has one core to itself, and the load comes from another one.

mod bare;
mod load;
mod report;
mod server;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use tidegate_testkit::{Redis, peer};

use self::load::Load;
use crate::figures::Figures;
use crate::load::{Measured, meet_all_keys, run};
use crate::median::median;
use crate::running::{LOADS_CORE, Running, pin_to};

pub(crate) use self::server::serve;

const DEPTHS: [usize; 2] = [1, 16];
const MANY: u32 = 1_000_000;

/// The server that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contestant {
    Bare,
    Ours,
    Throttlecrab,
}

const CONTESTANTS: [Contestant; 3] = [Contestant::Bare, Contestant::Ours, Contestant::Throttlecrab];

/// A kind of traffic: whether it is denied, and how many keys it has.
#[derive(Clone, Copy, Debug)]
struct Traffic {
    name: &'static str,
    is_denied: bool,
    keys: u32,
}

const TRAFFIC: [Traffic; 4] = [
    Traffic { name: "allowed, 1 key", is_denied: false, keys: 1 },
    Traffic { name: "allowed, 1M keys", is_denied: false, keys: MANY },
    Traffic { name: "denied, 1 key", is_denied: true, keys: 1 },
    Traffic { name: "denied, 1M keys", is_denied: true, keys: MANY },
];

/// Measures all traffic at each depth of pipelining, and then with Redis.
pub(crate) fn compare(rounds: usize, seconds: f64, figures: &mut Figures) -> anyhow::Result<()> {
    pin_to(LOADS_CORE)?;
    let time = Duration::try_from_secs_f64(seconds)?;
    let throttlecrab = peer("throttlecrab-server");
    let servers = start(throttlecrab.as_deref())?;
    for (contestant, server) in servers.iter().filter(|(it, _)| *it == Contestant::Ours) {
        for traffic in TRAFFIC {
            eprintln!("{} creates the keys: {} ...", contestant.name(), traffic.name);
            meet_all_keys(server, &contestant.load(traffic, 16))?;
        }
    }
    for depth in DEPTHS {
        let rows = in_turns(&servers, depth, rounds, time)?;
        report::print(depth, &rows, figures);
    }
    drop(servers);
    in_redis(rounds, time, figures)
}

fn start(throttlecrab: Option<&Path>) -> anyhow::Result<Vec<(Contestant, Running)>> {
    let mut servers = Vec::new();
    for contestant in CONTESTANTS {
        let server = match (contestant, throttlecrab) {
            (Contestant::Bare, _) => server::start("bare")?,
            (Contestant::Ours, _) => server::start("ours")?,
            (Contestant::Throttlecrab, Some(program)) => server::start_throttlecrab(program)?,
            (Contestant::Throttlecrab, None) => continue,
        };
        servers.push((contestant, server));
    }
    Ok(servers)
}

/// Rounds are interleaved, so that other load on the machine affects all contestants alike.
fn in_turns(
    servers: &[(Contestant, Running)],
    depth: usize,
    rounds: usize,
    time: Duration,
) -> anyhow::Result<Vec<(Traffic, Contestant, Vec<Measured>)>> {
    let mut rows = Vec::new();
    for traffic in TRAFFIC {
        eprintln!("{depth} at a time, {} ...", traffic.name);
        let servers: Vec<_> = servers.iter().filter(|(it, _)| it.takes(traffic)).collect();
        let mut measured: Vec<Vec<Measured>> = servers.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds {
            for ((contestant, server), measured) in servers.iter().zip(&mut measured) {
                measured.push(run(server, &contestant.load(traffic, depth), time)?);
            }
        }
        for ((contestant, _), rounds) in servers.iter().zip(measured) {
            let denied = median(rounds.iter().map(|it| it.denied)).context("a round")?;
            let expected = if traffic.is_denied { 1.0 } else { 0.0 };
            let is_right = (denied - expected).abs() < 1e-9;
            ensure!(is_right, "{contestant:?}, {}: {denied} are denied", traffic.name);
            rows.push((traffic, *contestant, rounds));
        }
    }
    Ok(rows)
}

/// What a decision costs the server when Redis keeps the counters, on the load's core.
fn in_redis(rounds: usize, time: Duration, figures: &mut Figures) -> anyhow::Result<()> {
    let redis = Redis::start();
    let server = server::start(&redis.url())?;
    let mut rows = Vec::new();
    for (name, keys) in [("1 key", 1), ("100k keys", 100_000)] {
        for depth in DEPTHS {
            eprintln!("Redis, {name}, {depth} at a time ...");
            let traffic = Traffic { name, is_denied: false, keys };
            let load = Contestant::Ours.load(traffic, depth);
            let rounds: Result<Vec<_>, _> =
                (0..rounds).map(|_| run(&server, &load, time)).collect();
            let measured = Measured::median(&rounds?).context("a round")?;
            figures.add("with Redis, server CPU", "µs", measured.cpu, []);
            rows.push((format!("allowed, {name}, {depth} at a time"), measured));
        }
    }
    report::print_redis(&rows);
    Ok(())
}

impl Contestant {
    const fn load(self, traffic: Traffic, depth: usize) -> Load {
        let (path, body) = match (self, traffic.is_denied) {
            (Self::Bare, false) => ("/allowed", r#"{"policy":"wide","key":"KEY"}"#),
            (Self::Bare, true) => ("/denied", r#"{"policy":"tight","key":"KEY"}"#),
            (Self::Ours, false) => ("/v1/check", r#"{"policy":"wide","key":"KEY"}"#),
            (Self::Ours, true) => ("/v1/check", r#"{"policy":"tight","key":"KEY"}"#),
            (Self::Throttlecrab, _) => ("/throttle", CRAB_ALLOWS),
        };
        Load { path, body, keys: traffic.keys, depth }
    }

    /// throttlecrab answers 200 to denied requests too, and takes minutes to see a million keys.
    const fn takes(self, traffic: Traffic) -> bool {
        !matches!(self, Self::Throttlecrab) || (traffic.keys == 1 && !traffic.is_denied)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Bare => "hyper, bare",
            Self::Ours => "tidegate",
            Self::Throttlecrab => "throttlecrab",
        }
    }
}

const CRAB_ALLOWS: &str =
    r#"{"key":"KEY","max_burst":1000000,"count_per_period":100000000,"period":60}"#;
