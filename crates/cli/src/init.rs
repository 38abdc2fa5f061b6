//! `tidegate init`: prints a configuration to start from.

use std::process::ExitCode;

use crate::output::print;

/// `init` has no options.
#[derive(Debug, clap::Args)]
pub(crate) struct InitCommand {}

impl InitCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        print(STARTER)?;
        Ok(ExitCode::SUCCESS)
    }
}

const STARTER: &str = include_str!("starter.yaml");
