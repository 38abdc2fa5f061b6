//! `tidegate import FILE`: translates another limiter's file into a Tidegate configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate::config::import;

use crate::output::print;
use crate::source::read_source;
use crate::validate::print_problems;

/// The options of `import`.
#[derive(Debug, clap::Args)]
pub(crate) struct ImportCommand {
    /// An envoyproxy/ratelimit, limitador or RLaaS file; - is standard input
    file: PathBuf,
}

impl ImportCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        Ok(match read_source(&self.file).and_then(|source| import(&source)) {
            Ok(text) => {
                print(&text)?;
                warn_of_losses(&text);
                ExitCode::SUCCESS
            }
            Err(problems) => print_problems(&problems),
        })
    }
}

/// Warns of what was lost in translation. It is counted by the comments that `import` wrote.
///
/// The two kinds have opposite effects. A policy that is switched off limits nothing; any other
/// policy with a loss limits more than the original did.
fn warn_of_losses(text: &str) {
    for (comment, what) in [
        ("# Not carried over, so switched off:", "not carried over and switched off"),
        ("# Not carried over:", "not carried over and still limited"),
    ] {
        let lines = text.lines().map(str::trim_start);
        let count = lines.filter(|line| line.starts_with(comment)).count();
        if count > 0 {
            eprintln!("{count} {what}: see the comments");
        }
    }
}
