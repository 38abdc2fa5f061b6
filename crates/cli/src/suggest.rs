//! `tidegate suggest`: the smallest limit that denies no more than you tolerate.

#![allow(clippy::float_arithmetic, reason = "a tolerated share is not a decision")]

use std::process::ExitCode;

use anyhow::{anyhow, bail};
use tidegate::{AlgorithmKind, Span};
use tidegate_sim::{LimitSearch as Search, SuggestError, ToleranceBasis};

use crate::output::OutputArgs;
use crate::output::print;
use crate::progress::with_progress_bar;
use crate::replay::AccessLogArgs;
use crate::validate::print_problems;

/// The options of `suggest`.
#[derive(Debug, clap::Args)]
pub(crate) struct SuggestCommand {
    #[command(flatten)]
    log: AccessLogArgs,
    /// The attributes that distinguish callers
    #[arg(long, value_name = "NAME", required = true, value_delimiter = ',')]
    key: Vec<String>,
    /// The window of the limit
    #[arg(long, value_name = "SPAN", default_value = "minute")]
    per: Span,
    /// The share that may be denied, with a percent sign
    #[arg(long, value_name = "SHARE", default_value = "0.1%", value_parser = share)]
    tolerate: f64,
    /// What --tolerate is a share of: requests, or keys (a key counts if any of its requests is denied)
    #[arg(long, value_name = "WHAT", default_value_t = ToleranceBasis::Requests)]
    of: ToleranceBasis,
    /// Only consider requests that match, such as path=/api/**
    #[arg(long = "match", value_name = "NAME=PATTERN", value_parser = pair)]
    matches: Vec<(String, String)>,
    /// The algorithm of the suggested policy; limits for the other algorithms are printed as comments
    #[arg(long, value_name = "NAME", default_value_t = AlgorithmKind::SlidingWindow)]
    algorithm: AlgorithmKind,
    /// Print only the configuration
    #[arg(long, conflicts_with_all = ["json"])]
    snippet: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl SuggestCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let search = Search {
            key: self.key,
            matches: self.matches,
            window: self.per,
            tolerate: self.tolerate,
            basis: self.of,
            algorithm: self.algorithm,
        };
        let inputs = self.log.open()?;
        self.output.check()?;
        let found = with_progress_bar("reading", |progress| {
            search.run(inputs, |reader| self.log.set_up(reader), progress)
        });
        match found {
            Ok(suggestion) if self.snippet => print(&suggestion.snippet())?,
            Ok(suggestion) => self.output.show(suggestion.report())?,
            Err(SuggestError::InvalidPolicy(problems)) => return Ok(print_problems(&problems)),
            Err(error) => return Err(error.into()),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// `0.1%`. Without the sign, 0.1 could be meant as a tenth or as a thousandth; only 0 is clear.
fn share(text: &str) -> anyhow::Result<f64> {
    let number = match text.trim().strip_suffix('%') {
        Some(number) => number.trim_end(),
        None if text.trim() == "0" => "0",
        None => bail!("expected a share such as 0.1%, with the percent sign"),
    };
    let share: f64 = number.parse().map_err(|_| anyhow!("expected a share such as 0.1%"))?;
    let share = share / 100.0;
    if !(0.0..=1.0).contains(&share) {
        bail!("expected a share of 0% to 100%");
    }
    Ok(share)
}

fn pair(text: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = text.split_once('=').ok_or_else(|| anyhow!("expected NAME=PATTERN"))?;
    Ok((name.to_owned(), value.to_owned()))
}
