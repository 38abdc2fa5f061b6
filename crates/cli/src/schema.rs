//! `tidegate schema`: prints the JSON Schema of configurations, for editors.

use std::process::ExitCode;

use tidegate::config::json_schema;
use tidegate_gateway::config::SECTIONS;

use crate::output::print;

/// `schema` has no options.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaCommand {}

impl SchemaCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        print(&json_schema(SECTIONS))?;
        Ok(ExitCode::SUCCESS)
    }
}
