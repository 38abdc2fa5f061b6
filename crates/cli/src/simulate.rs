//! `tidegate simulate`: runs synthetic traffic against limits, in virtual time.

#![allow(clippy::float_arithmetic, reason = "rates of synthetic traffic are not decisions")]

use std::process::ExitCode;

use anyhow::bail;
use tidegate::{AlgorithmKind, Quota, QuotaError, Span};
use tidegate_sim::Simulation;
use tidegate_sim::traffic::TrafficModel;

use crate::number;
use crate::output::OutputArgs;
use crate::progress::with_progress_bar;

/// The options of `simulate`.
#[derive(Debug, clap::Args)]
pub(crate) struct SimulateCommand {
    /// The limits, separated by commas. All apply; the first is measured
    #[arg(long, value_name = "QUOTA", default_value = "100/minute", value_delimiter = ',')]
    limits: Vec<Quota>,
    /// fixed-window, sliding-window, sliding-log, token-bucket, stepped-window, several of them, or
    /// all
    #[arg(long, value_name = "NAME", default_value = "all", value_delimiter = ',')]
    algorithm: Vec<String>,
    /// burst-at-boundary, greedy, poisson, on-off, diurnal, zipf, crowd or crowd-jitter
    #[arg(long, value_name = "NAME", default_value = "burst-at-boundary")]
    traffic: TrafficModel,
    /// The rate of all sources together, for poisson, on-off, diurnal and zipf
    #[arg(long, value_name = "QUOTA")]
    rate: Option<Quota>,
    /// How many sources, or clients in a crowd
    #[arg(long, value_name = "N", value_parser = |text: &str| number::whole::<u32>(text, 1..=1_000_000))]
    sources: Option<u32>,
    /// How long to simulate, in virtual time
    #[arg(long = "for", value_name = "SPAN")]
    span: Option<Span>,
    /// The same seed gives the same traffic
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

impl SimulateCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let simulation = self.simulation()?;
        self.output.check()?;
        let mut outcomes = Vec::new();
        for kind in algorithms(&self.algorithm)? {
            let run = with_progress_bar(kind.name(), |progress| {
                simulation.run_with_progress(kind, progress)
            });
            match run {
                Ok(outcome) => outcomes.push(outcome),
                // With `all`, algorithms that do not accept the quota are left out.
                Err(error) if self.algorithm == ["all"] => eprintln!("{kind} is left out: {error}"),
                Err(error) => return Err(error.into()),
            }
        }
        if outcomes.is_empty() {
            bail!("no algorithm accepts these limits");
        }
        self.output.show(simulation.report(&outcomes))?;
        Ok(ExitCode::SUCCESS)
    }

    fn simulation(&self) -> anyhow::Result<Simulation> {
        let Some((quota, others)) = self.limits.split_first() else { bail!("no limits") };
        let mut simulation = Simulation::new(*quota, self.traffic);
        simulation.others = others.to_vec();
        let settings = &mut simulation.settings;
        settings.seed = self.seed;
        settings.sources = self.sources.unwrap_or(settings.sources);
        if let Some(span) = self.span {
            if span.is_zero() || span > Quota::MAX_WINDOW {
                bail!("cannot simulate {span}: expected 1us to {}", Quota::MAX_WINDOW);
            }
            settings.span = span;
        }
        if let Some(rate) = self.rate {
            settings.rate = rate.limit() as f64 * 1e6 / rate.window().as_micros() as f64;
        }
        let expected = simulation.expected_requests();
        if expected > MOST_REQUESTS {
            bail!(
                "that would be about {expected:.0} requests: expected at most {MOST_REQUESTS:.0}; \
                 choose a smaller limit, a lower --rate or a shorter --for"
            );
        }
        Ok(simulation)
    }
}

/// The algorithms of these names, each once.
fn algorithms(names: &[String]) -> Result<Vec<AlgorithmKind>, QuotaError> {
    let mut kinds = Vec::new();
    for name in names {
        match name.as_str() {
            "all" => kinds.extend_from_slice(AlgorithmKind::ALL),
            name => kinds.push(name.parse()?),
        }
    }
    let mut seen = Vec::new();
    kinds.retain(|kind| {
        !seen.contains(kind) && {
            seen.push(*kind);
            true
        }
    });
    Ok(kinds)
}

/// Some seconds of work.
const MOST_REQUESTS: f64 = 20e6;
