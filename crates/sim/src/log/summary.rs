//! What there is to know about a log that was read.

use std::fmt;

use tidegate::Timestamp;

use super::LogReadError;
use super::block::{LogBlock, MOST_EXAMPLES};
use super::format::LogLineFormat;
use crate::report::{clip, counted};

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct LogSummary {
    /// Lines that are requests.
    pub requests: u64,
    /// Lines that are not.
    pub malformed: u64,
    /// The first of those.
    pub examples: Vec<MalformedLine>,
    /// Requests that came later than could be put in order.
    pub late: u64,
    /// Requests that were too far ahead of their time to wait for it.
    pub ahead: u64,
    /// The earliest request.
    pub first: Option<Timestamp>,
    /// The latest request.
    pub last: Option<Timestamp>,
    /// The files in the order in which they were read, if they were given in another.
    pub order: Vec<String>,
    /// Whether files overlap, and were merged.
    pub has_merged: bool,
    /// Formats that were found, by file.
    pub formats: Vec<LogLineFormat>,
    /// How many requests had each attribute that was asked for.
    pub attributes: Vec<(String, u64)>,
}

/// A line that is no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedLine {
    /// The file.
    pub file: String,
    /// The line in it, from one.
    pub line: u64,
    /// What is wrong with it.
    pub why: &'static str,
}

impl LogSummary {
    /// Records a piece of one of the files.
    pub(super) fn add_block(&mut self, block: &LogBlock, files: &[String]) {
        self.requests += block.rows.len() as u64;
        self.malformed += block.malformed;
        let room = MOST_EXAMPLES.saturating_sub(self.examples.len());
        let file = files.get(block.file).map_or("", String::as_str);
        self.examples.extend(block.examples.iter().take(room).map(|malformed| MalformedLine {
            file: file.to_owned(),
            line: malformed.line,
            why: malformed.why,
        }));
        for row in &block.rows {
            self.first = Some(self.first.map_or(row.at, |first| first.min(row.at)));
            self.last = self.last.max(Some(row.at));
        }
    }

    /// What was read, if that is anything.
    ///
    /// # Errors
    ///
    /// When no line is a request.
    pub(crate) fn require_requests(self) -> Result<Self, LogReadError> {
        if self.requests > 0 {
            return Ok(self);
        }
        let example = self.examples.first().map(|example| {
            let lines = counted(self.malformed, "line");
            format!("of {lines} none is one; {example}")
        });
        Err(LogReadError::NoRequest { example })
    }
}

impl fmt::Display for MalformedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", clip(&self.file, 40), self.line, self.why)
    }
}
