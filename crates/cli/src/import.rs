//! `tidegate import FILE`: another limiter's file, as ours.

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate::config::{Source, import};

use crate::output::print;
use crate::validate::wrong;

/// What is translated.
#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// A file of envoyproxy/ratelimit, limitador or RLaaS
    file: PathBuf,
}

impl Import {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        Ok(match Source::read(&self.file).and_then(|source| import(&source)) {
            Ok(text) => {
                print(&text)?;
                let lost = text.lines().filter(|line| line.contains("# Not carried over")).count();
                if lost > 0 {
                    eprintln!("{lost} not carried over and switched off: see the comments");
                }
                ExitCode::SUCCESS
            }
            Err(problems) => wrong(&problems),
        })
    }
}
