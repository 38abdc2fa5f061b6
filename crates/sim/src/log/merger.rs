//! Merges several files into one log: their chunks, in the order of their times.

use std::io::Read;
use std::sync::Arc;

use tidegate::{Span, Timestamp};

use super::block::{LogBlock, LogRow, LogRowBuilder};
use super::chunk_reader::{LogChunk, LogChunkReader};
use super::field_names::LogFieldNames;
use super::format::{LogLayout, LogLineFormat};
use super::{LogInput, LogReadError};
use crate::WorkProgress;
use crate::report::clip;

/// How the lines of all files are read.
#[derive(Clone, Copy)]
pub(super) struct MergeSettings<'m> {
    pub(super) names: &'m LogFieldNames,
    pub(super) format: Option<LogLineFormat>,
    /// How far ahead of the other files a chunk may reach: lines are sorted later.
    pub(super) ahead: Span,
    pub(super) progress: &'m WorkProgress,
}

/// Reads several files in turn, the one that is furthest behind first.
pub(super) struct LogMerger<'m> {
    settings: MergeSettings<'m>,
    files: Vec<LogFileCursor<'m>>,
    /// The formats of the files that were opened so far.
    pub(super) formats: Vec<LogLineFormat>,
    /// Whether a chunk had to wait for other files.
    pub(super) has_merged: bool,
}

/// A chunk of one of the files.
pub(super) struct LogFileChunk {
    pub(super) file: usize,
    pub(super) layout: Arc<LogLayout>,
    pub(super) chunk: LogChunk,
}

/// A file that was not read to its end yet.
struct LogFileCursor<'m> {
    number: usize,
    name: String,
    /// The time of its next request, or a little earlier. Unknown if there are no requests.
    from: Option<Timestamp>,
    /// Set until the file is opened, which is late so that earlier files are closed by then.
    input: Option<LogInput>,
    chunks: Option<LogChunkReader<Box<dyn Read + Send + 'm>>>,
    layout: Option<Arc<LogLayout>>,
    held: Option<HeldChunk>,
}

/// Lines that were read but are later than those of other files.
struct HeldChunk {
    chunk: LogChunk,
    /// The remaining requests of the chunk.
    rows: std::iter::Peekable<std::vec::IntoIter<LogRow>>,
}

impl<'m> LogMerger<'m> {
    /// Merges files that begin at these times.
    pub(super) fn new(
        inputs: Vec<(Option<Timestamp>, LogInput)>,
        settings: MergeSettings<'m>,
    ) -> Self {
        let file =
            |(number, (from, input)): (usize, (Option<Timestamp>, LogInput))| LogFileCursor {
                number,
                name: input.name().to_owned(),
                from,
                input: Some(input),
                chunks: None,
                layout: None,
                held: None,
            };
        let files = inputs.into_iter().enumerate().map(file).collect();
        Self { settings, files, formats: Vec::new(), has_merged: false }
    }

    /// The next chunk, of the file that is furthest behind; `None` at the end of all files.
    pub(super) fn next(&mut self) -> Result<Option<LogFileChunk>, LogReadError> {
        let behind = |file: &&LogFileCursor<'_>| (file.from.is_none(), file.from, file.number);
        while let Some(number) = self.files.iter().min_by_key(behind).map(|file| file.number) {
            let others = self.files.iter().filter(|file| file.number != number);
            let until =
                others.filter_map(|file| file.from).min().map(|at| at + self.settings.ahead);
            let Some(file) = self.files.iter_mut().find(|file| file.number == number) else {
                break;
            };
            let is_new = file.layout.is_none();
            if let Some(chunk) = file.next(self.settings, until)? {
                self.formats.extend(is_new.then(|| chunk.layout.format()));
                self.has_merged |= file.held.is_some();
                return Ok(Some(chunk));
            }
            self.files.retain(|file| file.number != number);
        }
        Ok(None)
    }
}

impl<'m> LogFileCursor<'m> {
    /// The next chunk, up to this time.
    fn next(
        &mut self,
        settings: MergeSettings<'m>,
        until: Option<Timestamp>,
    ) -> Result<Option<LogFileChunk>, LogReadError> {
        let held = match self.held.take() {
            Some(held) => Some(held),
            None => self.read(settings)?.map(|chunk| HeldChunk::new(chunk, Vec::new())),
        };
        let (Some(held), Some(layout)) = (held, self.layout.clone()) else { return Ok(None) };
        let (chunk, rest) = match until {
            Some(until) => self.split(settings, held, until, &layout),
            None => (held.chunk, None),
        };
        self.held = rest;
        Ok(Some(LogFileChunk { file: self.number, layout, chunk }))
    }

    /// The next lines. The first ones determine the layout.
    fn read(&mut self, settings: MergeSettings<'m>) -> Result<Option<LogChunk>, LogReadError> {
        let name = &self.name;
        let fail = |line: u64, error| LogReadError::Read {
            name: name.clone(),
            line: line.saturating_sub(1),
            error,
        };
        if let Some(input) = self.input.take() {
            let reader = input.into_reader(settings.progress).map_err(|error| fail(1, error))?;
            self.chunks = Some(LogChunkReader::new(reader));
        }
        let Some(chunks) = &mut self.chunks else { return Ok(None) };
        while let Some(mut chunk) = chunks.next().map_err(|error| fail(chunks.line(), error))? {
            if self.layout.is_none() {
                if chunk.text.trim_ascii().is_empty() {
                    continue;
                }
                self.layout = Some(Arc::new(detect_layout(name, settings, &mut chunk)?));
            }
            return Ok(Some(chunk));
        }
        Ok(None)
    }

    /// Splits a chunk into the lines up to this time and the rest. The rest determines the file's
    /// next time.
    fn split(
        &mut self,
        settings: MergeSettings<'_>,
        mut held: HeldChunk,
        until: Timestamp,
        layout: &LogLayout,
    ) -> (LogChunk, Option<HeldChunk>) {
        if held.rows.len() == 0 {
            let last = rows_in_text(settings.names, layout, last_lines(&held.chunk.text))
                .last()
                .map(|row| row.at);
            if last.is_none_or(|last| last <= until) {
                self.from = self.from.max(last);
                return (held.chunk, None);
            }
            let rows = rows_in_chunk(settings.names, layout, &held.chunk);
            held = HeldChunk::new(held.chunk, rows);
        }
        let mut last = None;
        while let Some(row) = held.rows.next_if(|row| row.at <= until || last.is_none()) {
            last = Some(row.at);
        }
        let Some(later) = held.rows.peek().copied() else {
            self.from = self.from.max(last);
            return (held.chunk, None);
        };
        self.from = Some(later.at);
        let (chunk, rest) = held.chunk.cut_before(later.line);
        (chunk, Some(HeldChunk { chunk: rest, rows: held.rows }))
    }
}

impl HeldChunk {
    fn new(chunk: LogChunk, rows: Vec<LogRow>) -> Self {
        Self { chunk, rows: rows.into_iter().peekable() }
    }
}

/// The time of the first request, given the beginning of a file.
pub(super) fn first_time(
    names: &LogFieldNames,
    format: Option<LogLineFormat>,
    start: &[u8],
) -> Option<Timestamp> {
    let layout = LogLayout::detect(format, start, names)?;
    Some(rows_in_text(names, &layout, start).first()?.at)
}

/// The requests in these lines.
fn rows_in_text(names: &LogFieldNames, layout: &LogLayout, text: &[u8]) -> Vec<LogRow> {
    rows_in_chunk(names, layout, &LogChunk { line: 1, text: text.to_vec() })
}

fn rows_in_chunk(names: &LogFieldNames, layout: &LogLayout, chunk: &LogChunk) -> Vec<LogRow> {
    let mut scratch = Vec::new();
    let parse = |line: &[u8], fill: &mut LogRowBuilder<'_>| layout.parse(line, &mut scratch, fill);
    LogBlock::parse(names, 0, chunk.line, chunk.text.clone(), parse).rows
}

/// The last few of these lines.
fn last_lines(text: &[u8]) -> &[u8] {
    let end = text.get(text.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
    match memchr::memchr(b'\n', end) {
        Some(at) if end.len() < text.len() => end.get(at + 1..).unwrap_or_default(),
        _ => end,
    }
}

/// Detects the layout from the first chunk. A header is blanked, so that line numbers stay right.
fn detect_layout(
    name: &str,
    settings: MergeSettings<'_>,
    chunk: &mut LogChunk,
) -> Result<LogLayout, LogReadError> {
    let layout = LogLayout::detect(settings.format, &chunk.text, settings.names);
    let Some(layout) = layout else {
        let start = chunk.text.trim_ascii_start();
        let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let start = clip(&String::from_utf8_lossy(line), 60);
        return Err(LogReadError::UnknownFormat { name: name.to_owned(), start });
    };
    if layout.has_header() {
        let begin = chunk.text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
        let rest = chunk.text.get_mut(begin..).unwrap_or_default();
        rest.iter_mut().take_while(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
    Ok(layout)
}

/// Enough for some lines.
const TAIL_BYTES: usize = 16 << 10;
