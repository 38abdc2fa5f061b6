//! `tidegate validate FILE`: reports every problem of a configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate::config::FileProblems;
use tidegate::{Plan, RedisConfig};

use crate::output::print;
use crate::shared_keys::SharedKeyCheck;
use crate::source::{name_of, read_source};
use crate::{ERROR, WRONG};

/// The options of `validate`.
#[derive(Debug, clap::Args)]
pub(crate) struct ValidateCommand {
    /// The configuration; - is standard input
    file: PathBuf,
    /// Where the counters will be, such as redis+cluster://h1,h2, if the file does not say
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

impl ValidateCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let plan = read_source(&self.file).and_then(|source| Plan::compile(&source));
        let plan = match plan {
            Ok(plan) => plan,
            Err(problems) => return Ok(print_problems(&problems)),
        };
        if let Some(error) = self.store_error(&plan) {
            eprintln!("{}: {error}\n1 problem", name_of(&self.file));
            return Ok(ExitCode::from(WRONG));
        }
        let count = plan.policies().len();
        let policies = if count == 1 { "policy" } else { "policies" };
        print(&format!("{}: ok, {count} {policies}\n{}", name_of(&self.file), hints(&plan)))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Why `serve` would refuse the store, or the keys that the policies share through it. Compiling a
    /// plan only checks how the URL begins.
    fn store_error(&self, plan: &Plan) -> Option<String> {
        let url = self.store.as_deref().or_else(|| plan.settings().store());
        let url = url.filter(|url| *url != "memory")?;
        match url.parse::<RedisConfig>() {
            Err(error) => Some(format!("store {error}")),
            Ok(config) => SharedKeyCheck(config).check(plan).err().map(|error| error.to_string()),
        }
    }
}

pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  the configuration is valid
  1  it is not: every problem is listed on standard error
  2  any other error";

/// Advice about a plan, one per line.
pub(crate) fn hints(plan: &Plan) -> String {
    let mut hints = plan.hints();
    let more = hints.len().saturating_sub(MOST_HINTS);
    hints.truncate(MOST_HINTS);
    let mut text: String = hints.iter().map(|hint| format!("hint: {hint}\n")).collect();
    if more > 0 {
        text += &format!("hint: and {more} more\n");
    }
    text
}

const MOST_HINTS: usize = 10;

/// Prints all problems and their number, and returns the exit code. A file that cannot be read is an
/// error, not an invalid configuration.
pub(crate) fn print_problems(problems: &FileProblems) -> ExitCode {
    if problems.is_unreadable() {
        eprintln!("tidegate: {problems}");
        return ExitCode::from(ERROR);
    }
    let count = problems.count();
    let what = if count == 1 { "problem" } else { "problems" };
    eprintln!("{problems}\n{count} {what}");
    ExitCode::from(WRONG)
}
