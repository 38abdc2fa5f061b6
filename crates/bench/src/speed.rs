//! Measures nanoseconds and allocations per decision.

use crate::Allocations;
use crate::contestant::{self, Contestant, FLOOR, PEER, Setting};
use crate::figures::Figures;
use crate::stopwatch::Stopwatch;
use crate::table;
use crate::workload::{self, Spread, Workload};

const KEY_SETS: [(&str, usize, Spread); 3] = [
    ("1k keys", 1_000, Spread::Uniform),
    ("1M keys, zipf", 1_000_000, Spread::Zipf),
    ("1M keys", 1_000_000, Spread::Uniform),
];

/// Measures requests that are all allowed.
pub(crate) fn allowed(rounds: usize, decisions: usize, only: &str, figures: &mut Figures) {
    let title = "Allowed, ns a decision";
    compare(title, Setting::Generous, rounds, decisions, only, |name, workload, time, of_peer| {
        let id = format!("{name}, {workload}");
        figures.add(id, "ns", time, (name != PEER).then_some((PEER, of_peer)));
    });
}

/// Measures requests that are all denied.
pub(crate) fn denied(rounds: usize, decisions: usize, only: &str, figures: &mut Figures) {
    let title = "Denied, ns a decision";
    compare(title, Setting::Strict, rounds, decisions, only, |name, workload, time, of_peer| {
        if contestant::is_ours(name) {
            let keys = workload.split(',').next().unwrap_or_default();
            figures.add(format!("denied, {keys}"), "ns", time, [(PEER, of_peer)]);
        }
    });
}

/// `record` gets a contestant, a workload, the time, and its ratio to the peer's.
fn compare(
    title: &str,
    setting: Setting,
    rounds: usize,
    decisions: usize,
    only: &str,
    mut record: impl FnMut(&str, &str, f64, f64),
) {
    let names = contestant::names();
    let mut header = vec!["ns (time / governor's, time / bare table's)".to_owned()];
    let mut rows: Vec<Vec<String>> = names.iter().map(|name| vec![(*name).to_owned()]).collect();
    for (name, keys, spread) in KEY_SETS.into_iter().filter(|(name, ..)| name.contains(only)) {
        for threads in [1, 2] {
            let workload = Workload::new(name, keys, spread, threads, decisions);
            let column = format!("{name}, {threads}T");
            let times = medians(&workload, &names, setting, rounds);
            let time_of = |wanted| {
                let at = names.iter().position(|name| *name == wanted);
                at.and_then(|at| times.get(at)).copied().unwrap_or(f64::NAN)
            };
            let (peer, floor) = (time_of(PEER), time_of(FLOOR));
            for ((row, time), name) in rows.iter_mut().zip(&times).zip(&names) {
                record(name, &column, *time, time / peer);
                row.push(format!("{time:.0} ({:.2}, {:.2})", time / peer, time / floor));
            }
            header.push(column);
        }
    }
    table::print(title, &header, &rows);
}

/// Each contestant's median over rounds that all run in turn.
fn medians(workload: &Workload, names: &[&str], setting: Setting, rounds: usize) -> Vec<f64> {
    eprintln!("{}, {} thread(s) ...", workload.name, workload.threads);
    let contestants: Vec<Box<dyn Contestant>> =
        names.iter().map(|name| contestant::make(name, setting)).collect();
    contestants.iter().for_each(|contestant| workload.introduce(&**contestant));
    let mut times = vec![Vec::new(); contestants.len()];
    for _ in 0..rounds {
        for (times, contestant) in times.iter_mut().zip(&contestants) {
            times.push(workload.run(&**contestant));
        }
    }
    times.into_iter().map(median).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Allocations for decisions on known keys.
pub(crate) fn allocations(counted: Allocations) {
    const DECISIONS: usize = 100_000;
    let keys = workload::keys(1_000);
    let rows: Vec<Vec<String>> = contestant::names()
        .iter()
        .map(|name| {
            let [allowed, denied] = [Setting::Generous, Setting::Strict].map(|setting| {
                let contestant = contestant::make(name, setting);
                let decide = || {
                    for key in keys.iter().cycle().take(DECISIONS) {
                        std::hint::black_box(contestant.check(key));
                    }
                };
                // Long enough for a log to have all the memory it needs.
                let warm_up = Stopwatch::start();
                while warm_up.nanos() < 1.5e9 {
                    decide();
                }
                format!("{:.4}", counted(&mut || decide()) as f64 / DECISIONS as f64)
            });
            vec![(*name).to_owned(), allowed, denied]
        })
        .collect();
    let header = ["allocations a decision", "allowed", "denied"].map(str::to_owned);
    table::print("Allocations on known keys", &header, &rows);
}
