//! Measures decisions in Redis: their cost for Redis and their rate, beside the usual scripts.

mod callers;
mod memory;
mod scripts;

use anyhow::Context;
use tidegate::{AlgorithmKind, Precision};
use tidegate_testkit::{Cluster, Redis};

use self::callers::{AS_MANY, CALLERS, Load};
use crate::figures::Figures;
use crate::table;

/// The results of one contestant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Result {
    /// Microseconds of Redis's processor time.
    pub(crate) cpu: f64,
    pub(crate) a_second: f64,
}

const EXACT: Precision = Precision::CachedDeny;
const LEASED: Precision = Precision::Leased { max_over_permille: 50 };

/// The number of keys that requests are spread over.
const KEYS: u64 = 100_000;

/// How many decisions warm up, so that nearly every key exists.
fn warm_up(keys: u64, decisions: u64) -> u64 {
    (3 * keys).max(decisions / 4)
}

/// Runs every measurement whose name contains `only`, once in each round.
pub(crate) fn compare(
    rounds: usize,
    decisions: u64,
    only: &str,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    uniform(rounds, decisions, only, figures)?;
    hot_key(rounds, decisions, only, figures)?;
    over_the_limit(decisions, only, figures)?;
    on_a_cluster(decisions, only, figures)?;
    memory::compare(only, figures)
}

/// The algorithms whose measurement was requested.
fn wanted<'a>(
    kinds: &'a [AlgorithmKind],
    what: &'a str,
    only: &'a str,
) -> impl Iterator<Item = AlgorithmKind> + 'a {
    kinds.iter().copied().filter(move |kind| {
        let name = format!("{kind}, {what}");
        let wanted = name.contains(only);
        if wanted {
            eprintln!("{name} ...");
        }
        wanted
    })
}

/// Many keys: each algorithm beside its script.
fn uniform(rounds: usize, decisions: u64, only: &str, figures: &mut Figures) -> anyhow::Result<()> {
    let redis = Redis::start();
    let mut rows = Vec::new();
    for kind in wanted(&scripts::KINDS, "100,000 keys", only) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            theirs.push(scripts::run(&redis, kind, KEYS, decisions)?);
            // Each contestant has its own keys.
            redis.command(&["FLUSHALL"]);
            let (callers, precision, url) = (CALLERS, EXACT, redis.url());
            let load = Load { kind, workers: 1, callers, keys: KEYS, decisions, precision, url };
            ours.push(callers::run(&load, || redis.cpu_micros())?);
        }
        let medians = Medians::new(&ours, &theirs)?;
        medians.record(kind.name(), figures);
        rows.push(medians.row(kind.name()));
    }
    table::print(
        "100,000 keys, 64 callers, beside the script by redis-benchmark -P 16",
        &HEADER.map(str::to_owned),
        &rows,
    );
    Ok(())
}

/// One key that all callers use.
fn hot_key(rounds: usize, decisions: u64, only: &str, figures: &mut Figures) -> anyhow::Result<()> {
    let redis = Redis::start();
    let kinds =
        [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindow, AlgorithmKind::TokenBucket];
    let mut rows = Vec::new();
    for kind in wanted(&kinds, "one key", only) {
        let mut theirs = Vec::new();
        let mut ours = WAYS.map(|_| Vec::new());
        for _ in 0..rounds {
            theirs.push(scripts::run(&redis, kind, 1, decisions)?);
            for ((_, workers, callers, precision), ours) in WAYS.into_iter().zip(&mut ours) {
                let url = redis.url();
                let load = Load { kind, workers, callers, keys: 1, decisions, precision, url };
                ours.push(callers::run(&load, || redis.cpu_micros())?);
            }
        }
        for ((way, ..), ours) in WAYS.into_iter().zip(&ours) {
            let medians = Medians::new(ours, &theirs)?;
            medians.record(&format!("one key, {way}"), figures);
            rows.push(medians.row(&format!("{kind}, {way}")));
        }
        rows.push(floor(&redis, &theirs, figures)?);
    }
    table::print("One key", &HEADER.map(str::to_owned), &rows);
    Ok(())
}

/// How callers use the one key.
const WAYS: [(&str, u64, u64, Precision); 5] = [
    ("64 callers", 1, CALLERS, EXACT),
    ("64 callers, 2 workers", 2, CALLERS, EXACT),
    ("800 callers", 1, AS_MANY, EXACT),
    ("800 callers, 2 workers", 2, AS_MANY, EXACT),
    ("64 callers, leased", 1, CALLERS, LEASED),
];

/// What exact decisions about one key cannot exceed: each caller waits for at least a round trip.
fn floor(redis: &Redis, theirs: &[Result], figures: &mut Figures) -> anyhow::Result<Vec<String>> {
    let most = CALLERS as f64 * scripts::round_trips(redis)?;
    let script = median(theirs.iter().map(|result| result.a_second))?;
    figures.add("one key, a PING each, decisions", "per second", most, [(SCRIPT, most / script)]);
    let [most, ratio] = [format!("{most:.0}"), format!("{:.2}", most / script)];
    let nothing = || "-".to_owned();
    let name = "64 callers, a PING each".to_owned();
    Ok(vec![name, nothing(), nothing(), nothing(), most, ratio])
}

const HEADER: [&str; 6] =
    ["", "Redis CPU, us", "script's", "ratio", "decisions/s", "of the script's"];

/// What our ratios are compared with.
const SCRIPT: &str = "script";

/// Medians of all rounds. So are the ratios: each compares two consecutive runs, since the machine
/// is not equally fast from one minute to the next.
struct Medians {
    cpu: f64,
    script_cpu: f64,
    cpu_ratio: f64,
    a_second: f64,
    a_second_ratio: f64,
}

impl Medians {
    fn new(ours: &[Result], theirs: &[Result]) -> anyhow::Result<Self> {
        let ratio = |of: fn(&Result) -> f64| {
            median(ours.iter().zip(theirs).map(|(ours, theirs)| of(ours) / of(theirs)))
        };
        let cpu = |results: &[Result]| median(results.iter().map(|result| result.cpu));
        Ok(Self {
            cpu: cpu(ours)?,
            script_cpu: cpu(theirs)?,
            cpu_ratio: ratio(|result| result.cpu)?,
            a_second: median(ours.iter().map(|result| result.a_second))?,
            a_second_ratio: ratio(|result| result.a_second)?,
        })
    }

    fn record(&self, name: &str, figures: &mut Figures) {
        figures.add(format!("{name}, Redis CPU"), "µs", self.cpu, [(SCRIPT, self.cpu_ratio)]);
        let ratio = [(SCRIPT, self.a_second_ratio)];
        figures.add(format!("{name}, decisions"), "per second", self.a_second, ratio);
    }

    fn row(&self, name: &str) -> Vec<String> {
        vec![
            name.to_owned(),
            format!("{:.2}", self.cpu),
            format!("{:.2}", self.script_cpu),
            format!("{:.2}", self.cpu_ratio),
            format!("{:.0}", self.a_second),
            format!("{:.2}", self.a_second_ratio),
        ]
    }
}

/// Attackers: a hundred times what is allowed.
fn over_the_limit(decisions: u64, only: &str, figures: &mut Figures) -> anyhow::Result<()> {
    let redis = Redis::start();
    let mut rows = Vec::new();
    for kind in wanted(AlgorithmKind::ALL, "over the limit", only) {
        let share = callers::share_that_reaches_redis(&redis, kind, decisions)?;
        figures.add("over the limit, reach Redis", "%", 100.0 * share.asked, []);
        rows.push(vec![
            kind.name().to_owned(),
            format!("{:.1} %", 100.0 * share.denied),
            format!("{:.2} %", 100.0 * share.asked),
        ]);
    }
    let header = ["", "denied", "decisions that reach Redis"].map(str::to_owned);
    table::print("Over the limit", &header, &rows);
    Ok(())
}

/// Where the keys of a call must share a slot.
fn on_a_cluster(decisions: u64, only: &str, figures: &mut Figures) -> anyhow::Result<()> {
    let mut kinds = wanted(AlgorithmKind::ALL, "Cluster", only).peekable();
    if kinds.peek().is_none() {
        return Ok(());
    }
    let cluster = Cluster::start(3);
    let cpu = || cluster.nodes().iter().map(Redis::cpu_micros).sum();
    let mut rows = Vec::new();
    for kind in kinds {
        let (callers, precision, url) = (CALLERS, EXACT, cluster.url());
        let load = Load { kind, workers: 1, callers, keys: KEYS, decisions, precision, url };
        let ours = callers::run(&load, cpu)?;
        figures.add(format!("Cluster, {kind}, Redis CPU"), "µs", ours.cpu, []);
        figures.add("Cluster, decisions", "per second", ours.a_second, []);
        rows.push(vec![
            kind.name().to_owned(),
            format!("{:.2}", ours.cpu),
            format!("{:.0}", ours.a_second),
        ]);
    }
    let header = ["", "Redis CPU, us, all nodes", "decisions/s"].map(str::to_owned);
    table::print("Cluster of three, 100,000 keys, 64 callers", &header, &rows);
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> anyhow::Result<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().context("a round")
}
