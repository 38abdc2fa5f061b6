//! Prints the results of the HTTP benchmark beside its targets.

use super::{Contestant, Traffic};
use crate::figures::Figures;
use crate::load::Measured;
use crate::median::median_ratio;
use crate::table;

/// The share of hyper's requests per second, one at a time and 16 at a time.
const OF_BARE: f64 = 0.85;
const OF_BARE_PIPELINED: f64 = 0.40;
/// The multiple of throttlecrab's requests per second.
const OF_THROTTLECRAB: f64 = 1.4;
/// Microseconds per decision in Redis.
const CPU_WITH_REDIS: f64 = 18.0;

/// A table for one depth of pipelining.
pub(super) fn print(
    depth: usize,
    rows: &[(Traffic, Contestant, Vec<Measured>)],
    figures: &mut Figures,
) {
    let a_second = |rounds: &[Measured]| rounds.iter().map(|it| it.a_second).collect::<Vec<_>>();
    let other = |traffic: &Traffic, wanted: Contestant| {
        let row = rows.iter().find(|(it, who, _)| it.name == traffic.name && *who == wanted);
        row.map(|(_, _, rounds)| a_second(rounds))
    };
    let line = |(traffic, contestant, rounds): &(Traffic, Contestant, Vec<Measured>)| {
        let of = |wanted| {
            let theirs = other(traffic, wanted);
            theirs.and_then(|theirs| median_ratio(a_second(rounds), theirs))
        };
        let of_peers = [of(Contestant::Bare), of(Contestant::Throttlecrab)];
        let text = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |it| format!("{it:.2}"));
        let name = format!("{}: {}", traffic.name, contestant.name());
        let measured = Measured::median(rounds)?;
        let ratios = ["bare", "throttlecrab"].into_iter().zip(of_peers);
        let ratios = ratios.filter_map(|(peer, ratio)| Some((peer, ratio?)));
        let id = format!("{}, {depth} at a time", contestant.name());
        figures.add(id, "per second", measured.a_second, ratios);
        Some(row(name, &measured, of_peers.map(text)))
    };
    let lines: Vec<_> = rows.iter().filter_map(line).collect();
    let title = format!("POST /v1/check, 64 connections, {depth} at a time, a core each");
    table::print(&title, &HEADER.map(str::to_owned), &lines);
    let of_bare = if depth == 1 { OF_BARE } else { OF_BARE_PIPELINED };
    println!("\nAimed at: {of_bare:.2} of hyper's, {OF_THROTTLECRAB:.2} of throttlecrab's.");
}

/// The same with Redis, without anything to compare with.
pub(super) fn print_redis(rows: &[(String, Measured)]) {
    let nobody = || ["-".to_owned(), "-".to_owned()];
    let lines: Vec<_> =
        rows.iter().map(|(name, measured)| row(name.clone(), measured, nobody())).collect();
    table::print("The same with Redis", &HEADER.map(str::to_owned), &lines);
    println!("\nAimed at: at most {CPU_WITH_REDIS:.0} us of the server's processor.");
}

const HEADER: [&str; 9] = [
    "",
    "requests/s",
    "of hyper's",
    "of throttlecrab's",
    "server CPU, us",
    "p50, us",
    "p99, us",
    "p99.9, us",
    "denied",
];

fn row(name: String, measured: &Measured, of: [String; 2]) -> Vec<String> {
    let [p50, p99, p999] = measured.latencies;
    let [of_bare, of_throttlecrab] = of;
    vec![
        name,
        format!("{:.0}", measured.a_second),
        of_bare,
        of_throttlecrab,
        format!("{:.2}", measured.cpu),
        format!("{p50:.0}"),
        format!("{p99:.0}"),
        format!("{p999:.0}"),
        format!("{:.0} %", 100.0 * measured.denied),
    ]
}
