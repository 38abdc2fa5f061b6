//! The Redis protocol: our server beside a bare one that decides nothing, and beside
//! throttlecrab's.
//!
//! All servers run on one core, but only one at a time is under load. The load comes from another
//! core.

mod bare;
mod load;
mod server;

use std::time::Duration;

use anyhow::Context;
use tidegate_testkit::peer;

use self::load::Load;
use self::server::Contestant;
use crate::figures::Figures;
use crate::load::{Measured, meet_all_keys, run};
use crate::median::median_ratio;
use crate::running::{LOADS_CORE, Running, pin_to};
use crate::table;

pub(crate) use self::server::serve;

/// How many commands a client sends before it reads a reply: `-P` in redis-benchmark.
const DEPTHS: [usize; 3] = [1, 16, 64];
const MANY: u32 = 1_000_000;

/// One row of the results: a server, and the command that it gets.
struct Traffic {
    name: &'static str,
    contestant: Contestant,
    /// The command, with `KEY` where the key is.
    command: &'static str,
    /// The number of keys.
    keys: u32,
}

const TRAFFIC: &[Traffic] = &[
    traffic("bare tokio server, CL.THROTTLE", Contestant::Bare, ALLOWED_EACH, MANY),
    traffic("CL.THROTTLE, allowed, 1 key", Contestant::Ours, ALLOWED, 1),
    traffic("CL.THROTTLE, allowed, 1M keys", Contestant::Ours, ALLOWED_EACH, MANY),
    traffic("CL.THROTTLE, denied, 1 key", Contestant::Ours, DENIED, 1),
    traffic("CL.THROTTLE, denied, 1M keys", Contestant::Ours, DENIED, MANY),
    traffic("RL.CHECK, allowed, 1M keys", Contestant::Ours, "RL.CHECK wide KEY", MANY),
    traffic("RL.CHECK, denied, 1M keys", Contestant::Ours, "RL.CHECK tight KEY", MANY),
    traffic(
        "throttlecrab THROTTLE, allowed, 1 key",
        Contestant::Throttlecrab,
        "THROTTLE KEY 1000000 100000000 60",
        1,
    ),
];

const ALLOWED: &str = "CL.THROTTLE KEY 100000000 100000000 60";
/// With many keys, each key comes rarely. Its bucket must refill slowly: a full bucket is dropped,
/// and then its key would be new again.
const ALLOWED_EACH: &str = "CL.THROTTLE KEY 100000 1 60";
const DENIED: &str = "CL.THROTTLE KEY 0 1 36000";

const fn traffic(
    name: &'static str,
    contestant: Contestant,
    command: &'static str,
    keys: u32,
) -> Traffic {
    Traffic { name, contestant, command, keys }
}

/// Runs all traffic whose name contains `only`, at each depth of pipelining or at one.
pub(crate) fn compare(
    rounds: usize,
    seconds: f64,
    depth: Option<usize>,
    only: &str,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    pin_to(LOADS_CORE)?;
    let time = Duration::try_from_secs_f64(seconds)?;
    let bare = Contestant::Bare.start(None)?;
    let servers = start(only)?;
    for depth in DEPTHS.into_iter().filter(|it| depth.is_none_or(|only| only == *it)) {
        let ping = Load { command: "PING", keys: 1, depth };
        let mut floor = Vec::new();
        let mut measured: Vec<Vec<Measured>> = servers.iter().map(|_| Vec::new()).collect();
        // Interleaved, so that other load on the machine affects all contestants alike.
        for round in 1..=rounds {
            eprintln!("-P {depth}, round {round} of {rounds} ...");
            floor.push(run(&bare, &ping, time)?);
            for ((traffic, server), measured) in servers.iter().zip(&mut measured) {
                measured.push(run(server, &traffic.load(depth), time)?);
            }
        }
        let traffic = servers.iter().map(|(traffic, _)| *traffic);
        let measured: Vec<_> = traffic.zip(measured).collect();
        record(depth, &floor, &measured, figures)?;
        print(depth, &floor, &measured)?;
    }
    Ok(())
}

/// Starts a server for each kind of traffic, so that it has the keys of that traffic only.
fn start(only: &str) -> anyhow::Result<Vec<(&'static Traffic, Running)>> {
    let throttlecrab = peer("throttlecrab-server");
    let mut servers = Vec::new();
    for traffic in TRAFFIC.iter().filter(|traffic| traffic.name.contains(only)) {
        if traffic.contestant == Contestant::Throttlecrab && throttlecrab.is_none() {
            continue;
        }
        let server = traffic.contestant.start(throttlecrab.as_deref())?;
        if traffic.contestant == Contestant::Ours {
            eprintln!("creating the keys: {} ...", traffic.name);
            meet_all_keys(&server, &traffic.load(64))?;
        }
        servers.push((traffic, server));
    }
    Ok(servers)
}

impl Traffic {
    const fn load(&self, depth: usize) -> Load {
        Load { command: self.command, keys: self.keys, depth }
    }
}

/// Records our commands, at each depth over all traffic, and by the number of keys.
fn record(
    depth: usize,
    floor: &[Measured],
    measured: &[(&Traffic, Vec<Measured>)],
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let crab = measured.iter().find(|(it, _)| it.contestant == Contestant::Throttlecrab);
    for (traffic, rounds) in measured {
        let command = traffic.name.split(',').next().unwrap_or_default();
        let median = Measured::median(rounds).context("a round")?;
        let a_second =
            |rounds: &[Measured]| rounds.iter().map(|it| it.a_second).collect::<Vec<_>>();
        let of = |theirs: &[Measured]| median_ratio(a_second(rounds), a_second(theirs));
        // throttlecrab was asked about one key only.
        let of_crab = crab.filter(|_| traffic.keys == 1).and_then(|(_, theirs)| of(theirs));
        let ratios = [("bare", of(floor)), ("throttlecrab", of_crab)];
        let ratios = || ratios.into_iter().filter_map(|(peer, ratio)| Some((peer, ratio?)));
        let id = format!("{command}, {depth} at a time");
        match traffic.contestant {
            Contestant::Ours => {
                figures.add(&id, "per second", median.a_second, ratios());
                let keys = traffic.name.rsplit(", ").next().unwrap_or_default();
                let id = format!("{id}, {keys}");
                figures.add(id, "per second", median.a_second, ratios());
            }
            Contestant::Bare => {
                let cpu = |rounds: &[Measured]| rounds.iter().map(|it| it.cpu).collect::<Vec<_>>();
                let of_ping = median_ratio(cpu(rounds), cpu(floor)).context("a round")?;
                let id = format!("bare server, CL.THROTTLE, {depth} at a time, server CPU");
                figures.add(id, "µs", median.cpu, [("PING", of_ping)]);
            }
            Contestant::Throttlecrab => {}
        }
    }
    Ok(())
}

fn print(
    depth: usize,
    floor: &[Measured],
    measured: &[(&Traffic, Vec<Measured>)],
) -> anyhow::Result<()> {
    let mut rows = vec![row("bare tokio server, PING", floor, floor)?];
    for (traffic, measured) in measured {
        rows.push(row(traffic.name, measured, floor)?);
    }
    let header = [
        "",
        "k/s",
        "of bare",
        "server CPU, us",
        "of bare",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "denied",
    ];
    table::print(&format!("RESP, -P {depth}, 50 clients"), &header.map(str::to_owned), &rows);
    Ok(())
}

fn row(name: &str, rounds: &[Measured], floor: &[Measured]) -> anyhow::Result<Vec<String>> {
    let measured = Measured::median(rounds).context("a round")?;
    let of_bare = |figure: fn(&Measured) -> f64| {
        median_ratio(rounds.iter().map(figure), floor.iter().map(figure)).context("a round")
    };
    let [p50, p99, p999] = measured.latencies;
    Ok(vec![
        name.to_owned(),
        format!("{:.0}", measured.a_second / 1e3),
        format!("{:.2}", of_bare(|one| one.a_second)?),
        format!("{:.2}", measured.cpu),
        format!("{:.2}", of_bare(|one| one.cpu)?),
        format!("{p50:.0}"),
        format!("{p99:.0}"),
        format!("{p999:.0}"),
        format!("{:.0} %", 100.0 * measured.denied),
    ])
}
