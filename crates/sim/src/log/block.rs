//! A parsed chunk of a log. Its values are ranges of the text, so that nothing is copied.

use tidegate::{Attributes, Timestamp};

use super::field_names::LogFieldNames;
use super::time::read_time;

/// A chunk of a log, parsed into rows.
#[derive(Debug)]
pub(super) struct LogBlock {
    /// The index of its file.
    pub(super) file: usize,
    text: Vec<u8>,
    /// Values that could not be used as they stand in the text.
    extra: Vec<u8>,
    /// For each row, one for each wanted attribute.
    fields: Vec<ValueRange>,
    width: usize,
    pub(super) rows: Vec<LogRow>,
    /// Lines that are not requests.
    pub(super) malformed: u64,
    /// The first of these lines.
    pub(super) examples: Vec<LogLineFault>,
    /// How many rows have each wanted attribute.
    pub(super) present: Vec<u64>,
}

/// A line that is a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRow {
    pub(super) at: Timestamp,
    pub(super) line: u64,
}

/// A line that is not a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLineFault {
    pub(super) line: u64,
    pub(super) why: &'static str,
}

/// Where a value is, in the text of the block or in `extra`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ValueRange {
    start: u32,
    length: u32,
}

impl ValueRange {
    const ABSENT: Self = Self { start: u32::MAX, length: 0 };
    /// Set in `start` if the value is in `extra`.
    const IN_EXTRA: u32 = 1 << 31;
}

impl LogBlock {
    /// Parses lines with `parse`, which fills a row or returns why it cannot.
    pub(super) fn parse(
        names: &LogFieldNames,
        file: usize,
        first_line: u64,
        text: Vec<u8>,
        mut parse: impl FnMut(&[u8], &mut LogRowBuilder<'_>) -> Result<(), &'static str>,
    ) -> Self {
        let width = names.attributes().len();
        let (mut extra, mut fields, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let (mut malformed, mut examples, mut present) = (0, Vec::new(), vec![0; width]);
        let mut ranks = vec![u8::MAX; width];
        let mut row = vec![ValueRange::ABSENT; width];
        let mut begin = 0;
        for line in first_line.. {
            let Some(rest) = text.get(begin..).filter(|rest| !rest.is_empty()) else { break };
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let whole = rest.get(..length).unwrap_or_default();
            begin += length + 1;
            let whole = whole.strip_suffix(b"\r").unwrap_or(whole);
            if whole.trim_ascii().is_empty() {
                continue;
            }
            row.fill(ValueRange::ABSENT);
            ranks.fill(u8::MAX);
            let mut fill = LogRowBuilder {
                names,
                base: text.as_ptr() as usize,
                fields: &mut row,
                ranks: &mut ranks,
                extra: &mut extra,
                time: None,
            };
            let parsed = match whole.len() <= MOST_LINE {
                true => parse(whole, &mut fill),
                false => Err("it is longer than 64 KiB"),
            };
            let time = parsed.and_then(|()| fill.time.ok_or("it has no time"));
            match time {
                Ok((_, at)) => {
                    rows.push(LogRow { at, line });
                    for (count, field) in present.iter_mut().zip(&row) {
                        *count += u64::from(*field != ValueRange::ABSENT);
                    }
                    fields.extend_from_slice(&row);
                }
                Err(why) => {
                    malformed += 1;
                    if examples.len() < MOST_EXAMPLES {
                        examples.push(LogLineFault { line, why });
                    }
                }
            }
        }
        Self { file, text, extra, fields, width, rows, malformed, examples, present }
    }

    fn value(&self, row: usize, column: usize) -> Option<&[u8]> {
        let field = self.fields.get(row * self.width + column)?;
        if *field == ValueRange::ABSENT {
            return None;
        }
        let (bytes, start) = match field.start & ValueRange::IN_EXTRA {
            0 => (&self.text, field.start),
            _ => (&self.extra, field.start & !ValueRange::IN_EXTRA),
        };
        bytes.get(start as usize..(start + field.length) as usize)
    }
}

/// A row that is being filled.
pub(super) struct LogRowBuilder<'b> {
    pub(super) names: &'b LogFieldNames,
    base: usize,
    fields: &'b mut [ValueRange],
    ranks: &'b mut [u8],
    extra: &'b mut Vec<u8>,
    time: Option<(u8, Timestamp)>,
}

impl LogRowBuilder<'_> {
    /// Adds a value, unless it is empty or `-`, which logs write for a missing value.
    pub(super) fn put(&mut self, columns: &[u16], rank: u8, value: &[u8], found: LogValueOrigin) {
        if columns.is_empty() || value.is_empty() || value == b"-" {
            return;
        }
        let start = match found {
            LogValueOrigin::InLine => (value.as_ptr() as usize).wrapping_sub(self.base) as u32,
            LogValueOrigin::Derived => {
                let start = self.extra.len() as u32 | ValueRange::IN_EXTRA;
                self.extra.extend_from_slice(value);
                start
            }
        };
        self.set(columns, rank, ValueRange { start, length: value.len() as u32 });
    }

    fn set(&mut self, columns: &[u16], rank: u8, field: ValueRange) {
        for column in columns.iter().map(|column| usize::from(*column)) {
            if let (Some(place), Some(best)) =
                (self.fields.get_mut(column), self.ranks.get_mut(column))
                && rank < *best
            {
                (*place, *best) = (field, rank);
            }
        }
    }

    /// Sets the time, if the text is one.
    pub(super) fn put_time(&mut self, rank: u8, text: &[u8]) {
        if let Some(at) = read_time(text) {
            self.set_time(rank, at);
        }
    }

    pub(super) fn set_time(&mut self, rank: u8, at: Timestamp) {
        if self.time.is_none_or(|(best, _)| rank < best) {
            self.time = Some((rank, at));
        }
    }

    /// Adds a path, perhaps with a query.
    pub(super) fn put_target(&mut self, rank: u8, target: &[u8], found: LogValueOrigin) {
        let (path, query) = match memchr::memchr(b'?', target) {
            Some(at) => (target.get(..at), target.get(at + 1..)),
            None => (Some(target), None),
        };
        let (paths, queries) = (self.names.columns("path"), self.names.columns("query"));
        self.put(paths, rank, path.unwrap_or_default(), found);
        // A separate query field is preferred to the query of a path.
        self.put(queries, rank.saturating_add(100), query.unwrap_or_default(), found);
    }

    /// Adds the parts of a request line: `GET /x?y HTTP/1.1`.
    pub(super) fn put_request(&mut self, request: &[u8], found: LogValueOrigin) {
        let mut words = request.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let (Some(method), Some(target)) = (words.next(), words.next()) else { return };
        self.put(self.names.columns("method"), REQUEST_LINE_RANK, method, found);
        self.put_target(REQUEST_LINE_RANK, target, found);
    }
}

/// Where a value is.
#[derive(Clone, Copy, Debug)]
pub(super) enum LogValueOrigin {
    /// It is part of the line.
    InLine,
    /// It had to be derived from the line, and must be kept.
    Derived,
}

/// A request of a log, as policies see it.
///
/// Attributes are those of the log under the names that policies use: `ip`, `method`, `path`,
/// `query`, `host`, `status`, `user_agent`, `user`, and any other name the log has.
#[derive(Debug)]
pub struct LogRequest<'a> {
    /// The time of the request.
    pub at: Timestamp,
    /// Its line, from one.
    pub line: u64,
    pub(super) names: &'a LogFieldNames,
    pub(super) block: &'a LogBlock,
    pub(super) row: usize,
}

impl Attributes for LogRequest<'_> {
    #[inline]
    fn attribute(&self, name: &str) -> Option<&[u8]> {
        self.block.value(self.row, self.names.column(name)?)
    }
}

/// How many of the lines that are not requests are shown; all are counted.
pub(super) const MOST_EXAMPLES: usize = 5;
/// The longest line that can be a request.
const MOST_LINE: usize = 64 << 10;
/// The rank of values from a request line: a field of their own has a lower one and is preferred.
const REQUEST_LINE_RANK: u8 = 50;
