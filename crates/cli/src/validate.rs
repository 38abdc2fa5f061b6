//! `tidegate validate FILE`: everything that is wrong with a configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate::config::{Problems, Source};
use tidegate::{Plan, RedisConfig, RedisUrlError};

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
        let plan = match plan {
            Ok(plan) => plan,
            Err(problems) => return Ok(wrong(&problems)),
        };
        if let Some(error) = store_error(&plan) {
            eprintln!("{}: store {error}\n1 problem", self.file.display());
            return Ok(ExitCode::from(WRONG));
        }
        let count = plan.policies().len();
        let policies = if count == 1 { "policy" } else { "policies" };
        print(&format!("{}: ok, {count} {policies}\n", self.file.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Why `serve` would refuse the store. A plan only knows how its address begins.
fn store_error(plan: &Plan) -> Option<RedisUrlError> {
    let url = plan.settings().store().filter(|url| *url != "memory")?;
    url.parse::<RedisConfig>().err()
}

/// Reports what is wrong, and how many problems there are. A file that cannot be read is a
/// different matter.
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
