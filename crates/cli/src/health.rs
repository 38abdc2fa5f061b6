//! `tidegate health`: asks a running server whether it is well. For images without a shell.

use std::process::ExitCode;

use anyhow::{Context, bail};
use http::StatusCode;

use crate::WRONG;
use crate::client::{ServerArgs, get};
use crate::output::print;

/// The options of `health`.
#[derive(Debug, clap::Args)]
pub(crate) struct HealthCommand {
    #[command(flatten)]
    to: ServerArgs,
    /// Ask whether it wants traffic (/readyz), not only whether it answers (/healthz)
    #[arg(long)]
    ready: bool,
}

impl HealthCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start a runtime")?;
        match runtime.block_on(self.ask()) {
            Ok(text) => {
                print(&text)?;
                Ok(ExitCode::SUCCESS)
            }
            // Not the code of other errors: container engines know only 0 and 1.
            Err(error) => {
                eprintln!("tidegate: {}: {error:#}", self.to.server);
                Ok(ExitCode::from(WRONG))
            }
        }
    }

    async fn ask(&self) -> anyhow::Result<String> {
        let path = if self.ready { "/readyz" } else { "/healthz" };
        let (status, text) = get(&self.to.server, path, &self.to.credentials()).await?;
        let text = text.trim_end().replace('\n', "; ");
        // Another program's page may be long, and may contain escape sequences.
        let line: String = text.chars().take(MOST).filter(|char| !char.is_control()).collect();
        if status != StatusCode::OK {
            bail!("{path} answers {status}: {line}");
        }
        Ok(line + "\n")
    }
}

/// The most characters of an answer that are shown.
const MOST: usize = 500;

pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  the server is well
  1  it is not, or it could not be reached
  2  an invalid command line";
