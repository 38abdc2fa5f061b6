//! The summary of a log that was read.

use std::fmt;

use tidegate::Timestamp;

use super::LogReadError;
use super::block::{LogBlock, MOST_EXAMPLES};
use super::format::LogLineFormat;
use crate::report::{clip, counted};

/// What a log contained, and how it was read.
#[derive(Clone, Debug, Default)]
pub struct LogSummary {
    /// Lines that are requests.
    pub requests: u64,
    /// Lines that are not requests.
    pub malformed: u64,
    /// The first of these lines.
    pub examples: Vec<MalformedLine>,
    /// Requests that came too late to be sorted.
    pub late: u64,
    /// Requests whose time was too far ahead to wait for it.
    pub ahead: u64,
    /// The earliest request.
    pub first: Option<Timestamp>,
    /// The latest request.
    pub last: Option<Timestamp>,
    /// The files in the order in which they were read, if they were given in another order.
    pub order: Vec<String>,
    /// Whether files overlap, and were merged.
    pub has_merged: bool,
    /// The detected formats, by file.
    pub formats: Vec<LogLineFormat>,
    /// How many requests had each of the requested attributes.
    pub attributes: Vec<(String, u64)>,
}

/// A line that is not a request.
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
    /// Adds a block of one of the files.
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

    /// Returns the summary, if there is any request.
    ///
    /// # Errors
    ///
    /// If no line is a request.
    pub(crate) fn require_requests(self) -> Result<Self, LogReadError> {
        if self.requests > 0 {
            return Ok(self);
        }
        let example = self.examples.first().map(|example| {
            let lines = counted(self.malformed, "line");
            format!("none of {lines} is one; {example}")
        });
        Err(LogReadError::NoRequest { example })
    }
}

impl fmt::Display for MalformedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", clip(&self.file, 40), self.line, self.why)
    }
}
