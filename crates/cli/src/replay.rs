//! `tidegate replay`: what a configuration would have done to the requests of a log.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use tidegate::Span;
use tidegate_sim::log::{LogGenerator, LogInput, LogLineFormat, LogReadError, LogReader};
use tidegate_sim::{LogReplay, ReplayError};

use crate::number;
use crate::output::{OutputArgs, print_with};
use crate::progress::with_progress_bar;
use crate::source::read_file;
use crate::validate::print_problems;

/// The options of `replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplayCommand {
    #[command(flatten)]
    log: AccessLogArgs,
    /// The configuration to try
    #[arg(long, value_name = "FILE", required_unless_present = "generate")]
    config: Option<PathBuf>,
    /// The current configuration, to see what would change
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Do not replay: write a made-up log of about a day, with this many lines, to standard output
    #[arg(long, value_name = "LINES", conflicts_with_all = ["config", "against", "files"],
        value_parser = |text: &str| number::whole::<u64>(text, 0..=u64::MAX))]
    generate: Option<u64>,
    /// The seed for --generate
    #[arg(long, value_name = "N", default_value_t = 1, requires = "generate")]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// The options for access logs: which ones, and how they are read.
#[derive(Debug, clap::Args)]
pub(crate) struct AccessLogArgs {
    /// Access logs, plain or gzip, in any order; - is standard input
    #[arg(value_name = "ACCESS_LOG")]
    files: Vec<PathBuf>,
    /// common (also combined), json or csv. Detected by default
    #[arg(long, value_name = "NAME")]
    format: Option<LogLineFormat>,
    /// How far lines may be out of order, in time
    #[arg(long, value_name = "SPAN", default_value_t = LogReader::DEFAULT_SLACK)]
    reorder: Span,
}

impl AccessLogArgs {
    pub(crate) fn open(&self) -> anyhow::Result<Vec<LogInput>> {
        if self.files.is_empty() {
            bail!("no log: expected a file, or - for standard input");
        }
        let open = |path: &PathBuf| match path.as_os_str() == "-" {
            true => Ok(LogInput::stdin()),
            false => LogInput::open(path),
        };
        Ok(self.files.iter().map(open).collect::<Result<_, LogReadError>>()?)
    }

    pub(crate) fn set_up(&self, reader: LogReader) -> LogReader {
        reader.format(self.format).slack(self.reorder)
    }
}

impl ReplayCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(lines) = self.generate {
            return self.generate(lines);
        }
        let Some(config) = &self.config else { bail!("no configuration: expected --config FILE") };
        let replay = match self.load(config) {
            Ok(replay) => replay,
            Err(ReplayError::InvalidConfig(problems)) => return Ok(print_problems(&problems)),
            Err(error) => return Err(error.into()),
        };
        let inputs = self.log.open()?;
        self.output.check()?;
        let replayed = with_progress_bar("replaying", |progress| {
            replay.run(inputs, |reader| self.log.set_up(reader), progress)
        })?;
        self.output.show(replayed.report())?;
        Ok(ExitCode::SUCCESS)
    }

    fn load(&self, config: &Path) -> Result<LogReplay, ReplayError> {
        let old = self.against.as_deref().map(read_file).transpose()?;
        LogReplay::load(&read_file(config)?, old.as_ref())
    }

    fn generate(&self, lines: u64) -> anyhow::Result<ExitCode> {
        let format = self.log.format.unwrap_or(LogLineFormat::Common);
        let generator = LogGenerator { lines, seed: self.seed, format };
        print_with(|output| generator.write(output))?;
        Ok(ExitCode::SUCCESS)
    }
}
