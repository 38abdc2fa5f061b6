//! Writes findings to standard output, and to HTML and SVG files.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, IsTerminal as _, StdoutLock, Write as _, stderr};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tidegate_sim::report::FindingsReport;

/// The options for the output of findings.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// Write one self-contained HTML file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    /// Write the plot as SVG
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    svg: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl OutputArgs {
    /// Refuses a file that cannot be written, before the work whose result it is for.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        for path in self.html.iter().chain(&self.svg) {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            opened.with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Writes the report to every output that was requested.
    pub(crate) fn show(&self, mut report: FindingsReport) -> anyhow::Result<()> {
        report.command = command();
        if let Some(path) = &self.html {
            write(path, &report.html())?;
        }
        if let Some(path) = &self.svg {
            match report.svg() {
                Some(svg) => write(path, &svg)?,
                None => bail!("there is no plot to write to {}", path.display()),
            }
        }
        match self.json {
            true => print(&format!("{:#}\n", report.json())),
            false => print(&report.text()),
        }
    }
}

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_with(|output| output.write_all(text.as_bytes()))
}

/// The same for output that is too long to hold in memory. A reader that has gone, as after `| head`,
/// is not an error; a full disk is.
pub(crate) fn print_with(
    write: impl FnOnce(&mut StdoutLock<'_>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    // Anything left for the end of the program would be lost silently.
    match write(&mut output).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.context("cannot write to standard output"),
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    if stderr().is_terminal() {
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

/// The command line, for anyone who wants to reproduce the result.
fn command() -> String {
    let rest = std::env::args_os().skip(1).map(|argument| {
        let argument = argument.to_string_lossy().into_owned();
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=,%@+".contains(char);
        if !argument.is_empty() && argument.chars().all(is_plain) {
            argument
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    });
    std::iter::once("tidegate".to_owned()).chain(rest).collect::<Vec<_>>().join(" ")
}
