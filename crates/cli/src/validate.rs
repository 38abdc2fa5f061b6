//! `tidegate validate FILE`: everything that is wrong with a configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate::Plan;
use tidegate::config::{Problems, Source};

use crate::WRONG;
use crate::output::print;

/// What is checked.
#[derive(Debug, clap::Args)]
pub(crate) struct Validate {
    /// The configuration
    file: PathBuf,
}

impl Validate {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let plan = Source::read(&self.file).and_then(|source| Plan::compile(&source));
        Ok(match plan {
            Ok(plan) => {
                let count = plan.policies().len();
                let policies = if count == 1 { "policy" } else { "policies" };
                print(&format!("{}: ok, {count} {policies}\n", self.file.display()))?;
                ExitCode::SUCCESS
            }
            Err(problems) => wrong(&problems),
        })
    }
}

/// Says what is wrong, and how much of it there is.
pub(crate) fn wrong(problems: &Problems) -> ExitCode {
    let count = problems.count();
    let what = if count == 1 { "problem" } else { "problems" };
    eprintln!("{problems}\n{count} {what}");
    ExitCode::from(WRONG)
}
