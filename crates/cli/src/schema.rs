//! `tidegate schema`: prints the JSON Schema of configurations, for editors.

use std::process::ExitCode;

use tidegate::config::json_schema;

use crate::output::print;

/// `schema` has no options.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaCommand {}

impl SchemaCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        print(&json_schema())?;
        Ok(ExitCode::SUCCESS)
    }
}
