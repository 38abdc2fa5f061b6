//! Access logs of any size: read in bounded memory, parsed in parallel, passed on in order.
//!
//! A line that cannot be read is counted and never fatal. Fields are borrowed from the text; no
//! line allocates.

mod attribute_names;
mod block;
mod chunk_reader;
mod common;
mod csv;
mod field_names;
mod format;
mod generator;
mod input;
mod json;
mod merger;
mod reader;
mod reorder_buffer;
mod summary;
mod time;

pub(crate) use attribute_names::attribute_names;
pub use block::LogRequest;
pub use format::LogLineFormat;
pub use generator::LogGenerator;
pub use input::LogInput;
pub use reader::LogReader;
pub use summary::{LogSummary, MalformedLine};

use std::io;

/// Why a log cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogReadError {
    /// It cannot be opened.
    #[error("cannot open {name}: {error}")]
    Open {
        /// The file's name.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// Reading it failed in the middle, as for a damaged archive.
    #[error("cannot read {name} after line {line}: {error}")]
    Read {
        /// The file's name.
        name: String,
        /// The last line that could be read.
        line: u64,
        /// Why.
        error: io::Error,
    },
    /// The format of its lines is unknown.
    #[error(
        "{name}: cannot tell the format from \"{start}\"; expected common or combined log lines, JSON \
         objects, or CSV with a header line that names a time (see --format)"
    )]
    UnknownFormat {
        /// The file's name.
        name: String,
        /// How it begins, escaped for a terminal.
        start: String,
    },
    /// It contains no request.
    #[error("no request in the log: {}", .example.as_deref().unwrap_or("it is empty"))]
    NoRequest {
        /// A line that is not a request, and why.
        example: Option<String>,
    },
}
