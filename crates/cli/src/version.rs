//! `tidegate version`: prints what this binary was built from.

use std::process::ExitCode;

use crate::output::print;

/// `version` has no options.
#[derive(Debug, clap::Args)]
pub(crate) struct VersionCommand {}

impl VersionCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        print(&text(env!("TIDEGATE_COMMIT")))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// `commit` is a hash and a date, or `unknown`.
fn text(commit: &str) -> String {
    let (hash, date) = commit.split_once(' ').unwrap_or((commit, "unknown"));
    format!(
        "tidegate {}\ncommit:  {hash}\ndate:    {date}\ntarget:  {}\nprofile: {}\n",
        env!("CARGO_PKG_VERSION"),
        env!("TIDEGATE_TARGET"),
        env!("TIDEGATE_PROFILE"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_shown_with_its_date() {
        let lines = text("0123abc 2026-01-02");
        assert!(lines.contains("\ncommit:  0123abc\ndate:    2026-01-02\n"), "{lines}");
        let lines = text("unknown");
        assert!(lines.contains("\ncommit:  unknown\ndate:    unknown\n"), "{lines}");
    }
}
