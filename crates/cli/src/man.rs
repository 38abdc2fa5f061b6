//! `tidegate man`: writes the manual pages, from the same definitions as `--help`. For packages.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::Cli;

/// The options of `man`.
#[derive(Debug, clap::Args)]
pub(crate) struct ManCommand {
    /// The directory to write to: tidegate.1, and one page for each command
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl ManCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        std::fs::create_dir_all(&self.directory)
            .with_context(|| format!("cannot create {}", self.directory.display()))?;
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        write_pages(&command, &self.directory)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The page of a command, and those of the commands below it.
fn write_pages(command: &Command, directory: &Path) -> anyhow::Result<()> {
    write_page(command, directory)?;
    command
        .get_subcommands()
        .filter(|one| !one.is_hide_set())
        .try_for_each(|one| write_pages(one, directory))
}

fn write_page(command: &Command, directory: &Path) -> anyhow::Result<()> {
    let source = concat!("tidegate ", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command.clone()).source(source).manual("Tidegate");
    page.generate_to(directory)
        .with_context(|| format!("cannot write a manual page to {}", directory.display()))?;
    Ok(())
}
