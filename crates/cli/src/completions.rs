//! `tidegate completions`: prints a script that completes commands and flags in a shell.

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::Cli;
use crate::output::print_with;

/// The options of `completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsCommand {
    /// The shell that reads the script
    shell: Shell,
}

impl CompletionsCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "tidegate", &mut script);
        print_with(|output| output.write_all(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}
