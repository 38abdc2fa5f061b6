//! The gateway beside nginx and HAProxy as proxies that limit, in front of the same service.
//!
//! A proxy has one core to itself; the service and the load share the other one. What a request
//! costs the proxy's process is read from the system: on a shared machine that says more than
//! requests per second.

mod contender;
mod load;
mod server;

use anyhow::Context as _;
use tidegate_testkit::Redis;

use self::contender::Contender;
use self::load::Measured;
use crate::figures::Figures;
use crate::table;

pub(crate) use server::serve;

/// The core of proxies, and the core of everything else.
pub(crate) const OF_PROXIES: &str = "0";
pub(crate) const OF_OTHERS: &str = "1";

/// Measures all proxies in turn, so that other load on the machine affects all alike.
pub(crate) fn compare(rounds: usize, seconds: u64, figures: &mut Figures) -> anyhow::Result<()> {
    let service = contender::service().context("nginx is not installed: run scripts/peers")?;
    let redis = Redis::start();
    contender::pin(redis.pid(), OF_OTHERS)?;
    let contenders = Contender::all(service.port, &redis.url());
    let mut results: Vec<Vec<Measured>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        for (contender, results) in contenders.iter().zip(&mut results) {
            eprintln!("round {round}: {} ...", contender.name);
            let running = contender.start()?;
            load::run(running.port, contender.is_denied, 1)?;
            let before = contender::cpu_micros(running.pid());
            let mut measured = load::run(running.port, contender.is_denied, seconds)?;
            let spent = contender::cpu_micros(running.pid()).saturating_sub(before);
            measured.cpu = spent as f64 / measured.requests as f64;
            results.push(measured);
        }
    }
    let medians: Vec<Measured> =
        results.into_iter().map(load::median).collect::<Option<_>>().context("no round")?;
    let baseline = medians.first().copied().context("no contender")?;
    let row = |(contender, measured): (&Contender, &Measured)| {
        let of_nginx = ("nginx", measured.a_second / baseline.a_second);
        figures.add(contender.name, "per second", measured.a_second, [of_nginx]);
        figures.add(format!("{}, p99", contender.name), "ms", measured.p99 / 1e3, []);
        vec![
            contender.name.to_owned(),
            format!("{:.0}", measured.a_second),
            format!("{:.2}", measured.a_second / baseline.a_second),
            format!("{:.1}", measured.cpu),
            format!("{:.2}", baseline.cpu / measured.cpu),
            format!("{:.0}", measured.p99),
        ]
    };
    let header = ["", "requests/s", "of nginx's", "CPU us", "capacity, of nginx's", "p99 us"];
    let rows: Vec<_> = contenders.iter().zip(&medians).map(row).collect();
    let title = "One core for the proxy, 64 connections";
    table::print(title, &header.map(str::to_owned), &rows);
    half_load(&contenders, &baseline, rounds, seconds, figures)
}

/// Measures the latency of all proxies at half of nginx's highest rate, when nothing is scarce.
fn half_load(
    contenders: &[Contender],
    baseline: &Measured,
    rounds: usize,
    seconds: u64,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let rate = (baseline.a_second / 2.0) as u64;
    let mut rows = Vec::new();
    let mut first = None;
    for contender in contenders.iter().filter(|it| !it.is_denied) {
        let mut all = Vec::new();
        for _ in 0..rounds {
            let running = contender.start()?;
            all.push(load::paced(running.port, rate, seconds)?);
        }
        all.sort_by(f64::total_cmp);
        let p99 = all.get(all.len() / 2).copied().context("no round")?;
        let baseline = *first.get_or_insert(p99);
        let id = format!("{}, p99 at half load", contender.name);
        figures.add(id, "ms", p99 / 1e3, [("nginx", p99 / baseline)]);
        rows.push(vec![
            contender.name.to_owned(),
            format!("{p99:.0}"),
            format!("{:.2}", p99 / baseline),
        ]);
    }
    let title = format!("{rate} requests/s, half of what nginx can do");
    table::print(&title, &["", "p99 us", "of nginx's"].map(str::to_owned), &rows);
    Ok(())
}
