//! From files to requests in order: one thread reads, several parse lines, the caller decides.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tidegate::{Span, Timestamp};

use super::block::{Block, Request};
use super::chunks::{Chunk, Chunks};
use super::format::{Format, Layout};
use super::names::Names;
use super::reorder::Reorder;
use super::{Input, LogError, Reading};
use crate::Progress;
use crate::report::clip;

/// How a log is read.
///
/// ```
/// use tidegate::Attributes;
/// use tidegate_sim::Progress;
/// use tidegate_sim::log::{Input, LogReader};
///
/// let line = r#"9.9.9.9 - eve [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 5"#;
/// let reader = LogReader::new(["ip", "path"]);
/// let reading = reader.read(vec![Input::bytes("access.log", line)], &Progress::default(), |request| {
///     assert_eq!(request.attribute("ip"), Some(&b"9.9.9.9"[..]));
///     assert_eq!(request.attribute("path"), Some(&b"/a"[..]));
/// })?;
/// assert_eq!(reading.requests, 1);
/// # Ok::<(), tidegate_sim::log::LogError>(())
/// ```
#[derive(Debug)]
pub struct LogReader {
    names: Names,
    format: Option<Format>,
    slack: Span,
}

/// Work for a parser.
struct Work {
    file: usize,
    layout: Arc<Layout>,
    chunk: Chunk,
}

impl LogReader {
    /// How long a request may take by default.
    pub const DEFAULT_SLACK: Span = Span::from_secs(30);

    /// Reads these attributes. Others are not even looked at.
    pub fn new<'a>(wanted: impl IntoIterator<Item = &'a str>) -> Self {
        Self { names: Names::new(wanted), format: None, slack: Self::DEFAULT_SLACK }
    }

    /// Reads this format, whatever it looks like.
    #[must_use]
    pub fn format(self, format: Option<Format>) -> Self {
        Self { format, ..self }
    }

    /// How late a line may come and still be put in order. Also the longest that requests take,
    /// since servers write a line at the end of one.
    #[must_use]
    pub fn slack(self, slack: Span) -> Self {
        Self { slack, ..self }
    }

    /// Hands every request to `each`, in the order of their times.
    ///
    /// # Errors
    ///
    /// When a file stops to be readable, or is in no known format. What was read before has been
    /// handed on.
    pub fn read(
        &self,
        inputs: Vec<Input>,
        progress: &Progress,
        each: impl FnMut(&Request<'_>),
    ) -> Result<Reading, LogError> {
        let files: Vec<String> = inputs.iter().map(|input| input.name().to_owned()).collect();
        if let Some(total) = inputs.iter().map(Input::length).sum::<Option<u64>>() {
            progress.expect(total);
        }
        thread::scope(|scope| {
            let (mut to, mut from) = (Vec::new(), Vec::new());
            for _ in 0..parsers() {
                let (work, blocks, parser) = self.parser();
                scope.spawn(parser);
                to.push(work);
                from.push(blocks);
            }
            let reader = scope.spawn(move || self.split(inputs, &to, progress));
            let mut reading = self.hand_on(&from, &files, each);
            // Threads that still read find nobody to hand it to.
            drop(from);
            let formats = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            reading.formats = formats?;
            Ok(reading)
        })
    }

    /// A parser, and both ends of its queues. They are short: what is in progress is bounded.
    fn parser(&self) -> (SyncSender<Work>, Receiver<Block>, impl FnOnce() + Send) {
        let (work_in, work) = sync_channel::<Work>(BELT);
        let (blocks, blocks_out) = sync_channel(BELT);
        let run = move || {
            let mut scratch = Vec::new();
            for Work { file, layout, chunk } in work {
                let parse = |line: &[u8], fill: &mut super::block::Fill<'_>| {
                    layout.parse(line, &mut scratch, fill)
                };
                let block = Block::parse(&self.names, file, chunk.line, chunk.text, parse);
                if blocks.send(block).is_err() {
                    return;
                }
            }
        };
        (work_in, blocks_out, run)
    }

    /// Deals pieces out in turn, so that they can be collected in turn.
    fn split(
        &self,
        inputs: Vec<Input>,
        parsers: &[SyncSender<Work>],
        progress: &Progress,
    ) -> Result<Vec<Format>, LogError> {
        let mut turns = parsers.iter().cycle();
        let mut formats = Vec::new();
        for (file, input) in inputs.into_iter().enumerate() {
            let name = input.name().to_owned();
            let fail = |line: u64, error| LogError::Read {
                name: name.clone(),
                line: line.saturating_sub(1),
                error,
            };
            let reader = input.into_reader(progress).map_err(|error| fail(1, error))?;
            let mut chunks = Chunks::new(reader);
            let mut layout: Option<Arc<Layout>> = None;
            while let Some(mut chunk) = chunks.next().map_err(|error| fail(chunks.line(), error))? {
                if layout.is_none() && chunk.text.trim_ascii().is_empty() {
                    continue;
                }
                let layout = match &layout {
                    Some(layout) => layout.clone(),
                    None => {
                        let found = self.layout_of(&name, &mut chunk)?;
                        formats.push(found.format());
                        layout.insert(Arc::new(found)).clone()
                    }
                };
                let Some(parser) = turns.next() else { return Ok(formats) };
                if parser.send(Work { file, layout, chunk }).is_err() {
                    return Ok(formats);
                }
            }
        }
        Ok(formats)
    }

    /// What the first piece says. A line of names is blanked, so that line numbers stay right.
    fn layout_of(&self, name: &str, chunk: &mut Chunk) -> Result<Layout, LogError> {
        let layout = Layout::of(self.format, &chunk.text, &self.names);
        let Some(layout) = layout else {
            let start = chunk.text.trim_ascii_start();
            let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let start = clip(&String::from_utf8_lossy(line), 60);
            return Err(LogError::Unknown { name: name.to_owned(), start });
        };
        if layout.has_header() {
            let begin = chunk.text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
            let rest = chunk.text.get_mut(begin..).unwrap_or_default();
            rest.iter_mut().take_while(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        Ok(layout)
    }

    fn hand_on(
        &self,
        parsers: &[Receiver<Block>],
        files: &[String],
        mut each: impl FnMut(&Request<'_>),
    ) -> Reading {
        let names = &self.names;
        let mut reading = Reading::default();
        let mut present = vec![0_u64; names.wanted().len()];
        let mut reorder = Reorder::new(self.slack);
        let mut decide = |(at, (block, row)): (Timestamp, (Arc<Block>, usize))| {
            let line = block.rows.get(row).map_or(0, |row| row.line);
            each(&Request { at, line, names, block: &block, row });
        };
        for (number, parser) in parsers.iter().cycle().enumerate() {
            let Ok(block) = parser.recv() else { break };
            if number % HELD_BLOCKS == HELD_BLOCKS - 1 {
                reorder.stale().into_iter().for_each(&mut decide);
            }
            reading.note(&block, files);
            present.iter_mut().zip(&block.present).for_each(|(sum, count)| *sum += count);
            let block = Arc::new(block);
            for (index, row) in block.rows.iter().enumerate() {
                reorder.push(row.at, (block.clone(), index));
                while let Some(next) = reorder.ready() {
                    decide(next);
                }
            }
        }
        while let Some(next) = reorder.rest() {
            decide(next);
        }
        (reading.late, reading.ahead) = (reorder.late, reorder.ahead);
        reading.attributes = names.wanted().iter().map(ToString::to_string).zip(present).collect();
        reading
    }
}

/// As many as there are cores besides the one that decides.
fn parsers() -> usize {
    thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).clamp(1, 4)
}

const BELT: usize = 2;
/// After this many blocks of about a megabyte, nothing of a block is held any more.
const HELD_BLOCKS: usize = 48;
