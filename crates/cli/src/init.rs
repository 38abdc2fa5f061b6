//! `tidegate init`: a configuration to begin with.

use std::process::ExitCode;

use crate::output::print;

/// It takes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {}

impl Init {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        print(STARTER)?;
        Ok(ExitCode::SUCCESS)
    }
}

const STARTER: &str = include_str!("starter.yaml");
