//! The formats of logs, and how a log's format is detected.

use std::fmt;
use std::str::FromStr;

use tidegate::QuotaError;

use super::block::LogRowBuilder;
use super::csv::CsvHeader;
use super::field_names::LogFieldNames;
use super::{common, json};

/// The format of the lines of a log.
///
/// ```
/// use tidegate_sim::log::LogLineFormat;
///
/// assert_eq!("combined".parse(), Ok(LogLineFormat::Common));
/// assert!("xml".parse::<LogLineFormat>().unwrap_err().to_string().contains("common, json or csv"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLineFormat {
    /// Common or combined, as written by nginx, Apache, Traefik and others.
    Common,
    /// A JSON object in each line.
    Json,
    /// Values under a header line.
    Csv,
}

impl LogLineFormat {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::Json => "json",
            Self::Csv => "csv",
        }
    }
}

impl FromStr for LogLineFormat {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        Ok(match text {
            "common" | "combined" => Self::Common,
            "json" => Self::Json,
            "csv" => Self::Csv,
            _ => {
                return Err(QuotaError::refused(
                    text,
                    "unknown format; expected common, json or csv",
                ));
            }
        })
    }
}

impl fmt::Display for LogLineFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A format, with everything that is needed to parse its lines.
#[derive(Debug)]
pub(super) enum LogLayout {
    Common,
    Json,
    Csv(CsvHeader),
}

impl LogLayout {
    /// Detects the layout from the first lines, unless the format is given.
    pub(super) fn detect(
        format: Option<LogLineFormat>,
        start: &[u8],
        names: &LogFieldNames,
    ) -> Option<Self> {
        let lines = || start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let first = lines().find(|line| !line.is_empty()).unwrap_or_default();
        let is_json = |line: &[u8]| line.starts_with(b"{");
        let is_common = |line: &[u8]| {
            memchr::memmem::find(line, b" [").is_some()
                && memchr::memmem::find(line, b"] \"").is_some()
        };
        let csv = || CsvHeader::read(first, names).map(Self::Csv);
        match format {
            Some(LogLineFormat::Common) => Some(Self::Common),
            Some(LogLineFormat::Json) => Some(Self::Json),
            Some(LogLineFormat::Csv) => csv(),
            None => {
                let some = lines().take(DETECTION_LINES).find_map(|line| match line {
                    line if is_json(line) => Some(Self::Json),
                    line if is_common(line) => Some(Self::Common),
                    _ => None,
                });
                some.or_else(csv)
            }
        }
    }

    /// Whether the first line that is not empty is a header, not a request.
    pub(super) const fn has_header(&self) -> bool {
        matches!(self, Self::Csv(_))
    }

    pub(super) const fn format(&self) -> LogLineFormat {
        match self {
            Self::Common => LogLineFormat::Common,
            Self::Json => LogLineFormat::Json,
            Self::Csv(_) => LogLineFormat::Csv,
        }
    }

    pub(super) fn parse(
        &self,
        line: &[u8],
        scratch: &mut Vec<u8>,
        fill: &mut LogRowBuilder<'_>,
    ) -> Result<(), &'static str> {
        match self {
            Self::Common => common::parse(line, fill),
            Self::Json => json::parse(line, fill),
            Self::Csv(header) => header.parse(line, scratch, fill),
        }
    }
}

/// How many lines at the start are searched for one of a known format.
const DETECTION_LINES: usize = 20;
