//! Parses values under a header line, separated by commas, semicolons or tabs.

use super::block::{LogRowBuilder, LogValueOrigin};
use super::field_names::{LogField, LogFieldNames};

/// The delimiter of a file, and the field of each column.
#[derive(Debug)]
pub(super) struct CsvHeader {
    delimiter: u8,
    columns: Vec<Option<LogField>>,
}

impl CsvHeader {
    /// `None` if the line names no time: then it is not a header.
    pub(super) fn read(line: &[u8], names: &LogFieldNames) -> Option<Self> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let delimiter = [b',', b'\t', b';']
            .into_iter()
            .max_by_key(|delimiter| memchr::memchr_iter(*delimiter, line).count())?;
        let mut columns = Vec::new();
        let mut scratch = Vec::new();
        each_field(line, delimiter, &mut scratch, |field, _| {
            let name = std::str::from_utf8(field).unwrap_or_default().trim();
            let meaning = names.field(name).or_else(|| names.field(&name.to_ascii_lowercase()));
            columns.push(meaning.cloned());
        })?;
        let has_time = columns.iter().any(|meaning| matches!(meaning, Some(LogField::Time(_))));
        (has_time && columns.len() > 1).then_some(Self { delimiter, columns })
    }

    pub(super) fn parse(
        &self,
        line: &[u8],
        scratch: &mut Vec<u8>,
        fill: &mut LogRowBuilder<'_>,
    ) -> Result<(), &'static str> {
        let mut columns = self.columns.iter();
        let mut count = 0;
        let read = each_field(line, self.delimiter, scratch, |field, is_copy| {
            count += 1;
            let found = if is_copy { LogValueOrigin::Derived } else { LogValueOrigin::InLine };
            match columns.next().and_then(Option::as_ref) {
                Some(LogField::Time(rank)) => fill.put_time(*rank, field),
                Some(LogField::Request) => fill.put_request(field, found),
                Some(LogField::Target(rank)) => fill.put_target(*rank, field, found),
                Some(LogField::Value(columns, rank)) => fill.put(columns, *rank, field, found),
                Some(LogField::Attributes) | None => {}
            }
        });
        match read {
            None => Err("a quote in it does not end"),
            Some(()) if count < self.columns.len() => Err("it has fewer values than the header"),
            Some(()) if count > self.columns.len() => Err("it has more values than the header"),
            Some(()) => Ok(()),
        }
    }
}

/// Calls `each` with every field, and whether it is a copy; `None` if a quote does not end.
fn each_field(
    line: &[u8],
    delimiter: u8,
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(&[u8], bool),
) -> Option<()> {
    let mut rest = line;
    loop {
        let end = if let Some(quoted) = rest.strip_prefix(b"\"") {
            let (length, doubled) = quoted_length(quoted)?;
            let field = quoted.get(..length)?;
            if doubled {
                scratch.clear();
                let mut was_quote = false;
                for byte in field {
                    was_quote = *byte == b'"' && !was_quote;
                    if !was_quote {
                        scratch.push(*byte);
                    }
                }
                each(scratch, true);
            } else {
                each(field, false);
            }
            let after = quoted.get(length + 1..)?;
            rest.len() - after.len() + memchr::memchr(delimiter, after).unwrap_or(after.len())
        } else {
            let end = memchr::memchr(delimiter, rest).unwrap_or(rest.len());
            each(rest.get(..end)?, false);
            end
        };
        match rest.get(end + 1..) {
            Some(more) if end < rest.len() => rest = more,
            _ => return Some(()),
        }
    }
}

/// Up to the closing quote, and whether there are doubled ones before it.
fn quoted_length(text: &[u8]) -> Option<(usize, bool)> {
    let (mut from, mut doubled) = (0, false);
    loop {
        let at = from + memchr::memchr(b'"', text.get(from..)?)?;
        if text.get(at + 1) != Some(&b'"') {
            return Some((at, doubled));
        }
        doubled = true;
        from = at + 2;
    }
}
