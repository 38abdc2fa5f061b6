//! `tidegate validate FILE`: everything that is wrong with a configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate::Plan;
use tidegate::config::{Problems, Source};

use crate::output::print;
use crate::{ERROR, WRONG};

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

/// Says what is wrong, and how much of it there is. A file that cannot be read is none of that.
pub(crate) fn wrong(problems: &Problems) -> ExitCode {
    if problems.is_unreadable() {
        eprintln!("tidegate: {problems}");
        return ExitCode::from(ERROR);
    }
    let count = problems.count();
    let what = if count == 1 { "problem" } else { "problems" };
    eprintln!("{problems}\n{count} {what}");
    ExitCode::from(WRONG)
}
