//! `tidegate accuracy`: how often algorithms are wrong, and what they cost.

use std::process::ExitCode;

use tidegate::Quota;
use tidegate_sim::{AccuracyStudy as Measurement, ArrivalProcess};

use crate::number;
use crate::output::OutputArgs;
use crate::progress::with_progress_bar;

/// The options of `accuracy`.
#[derive(Debug, clap::Args)]
pub(crate) struct AccuracyCommand {
    /// The limit of each source
    #[arg(long, value_name = "QUOTA", default_value = "100/minute")]
    limit: Quota,
    /// Sources in each of the two populations
    #[arg(long, value_name = "N", default_value_t = 270_000,
        value_parser = |text: &str| number::whole::<u64>(text, 1..=10_000_000))]
    sources: u64,
    /// Requests of each population, all sources together; at least three windows are measured
    #[arg(long, value_name = "N", default_value_t = 100_000_000,
        value_parser = |text: &str| number::whole::<u64>(text, 1..=100_000_000_000))]
    requests: u64,
    /// How the requests of a source arrive: poisson, or in bursts (on-off)
    #[arg(long, value_name = "NAME", default_value_t = ArrivalProcess::Poisson)]
    arrivals: ArrivalProcess,
    /// The same seed gives the same figures, on any machine
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

impl AccuracyCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Self { limit: quota, sources, requests, arrivals, seed, .. } = self;
        let measurement = Measurement { quota, sources, requests, arrivals, seed };
        self.output.check()?;
        let findings = with_progress_bar("measuring", |progress| measurement.run(progress))?;
        self.output.show(findings.report())?;
        Ok(ExitCode::SUCCESS)
    }
}
