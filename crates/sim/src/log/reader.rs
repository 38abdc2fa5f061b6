//! From files to requests in order: one thread reads, several parse lines, the caller decides.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tidegate::{Span, Timestamp};

use super::block::{LogBlock, LogRequest};
use super::field_names::LogFieldNames;
use super::format::LogLineFormat;
use super::merger::{LogFileChunk, LogMerger, MergeSettings, first_time};
use super::reorder_buffer::ReorderBuffer;
use super::{LogInput, LogReadError, LogSummary};
use crate::WorkProgress;

/// Reads logs, and passes their requests on in order.
///
/// ```
/// use tidegate::Attributes;
/// use tidegate_sim::WorkProgress;
/// use tidegate_sim::log::{LogInput, LogReader};
///
/// let line = r#"9.9.9.9 - eve [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 5"#;
/// let reader = LogReader::new(["ip", "path"]);
/// let summary = reader.read(vec![LogInput::bytes("access.log", line)], &WorkProgress::default(), |request| {
///     assert_eq!(request.attribute("ip"), Some(&b"9.9.9.9"[..]));
///     assert_eq!(request.attribute("path"), Some(&b"/a"[..]));
/// })?;
/// assert_eq!(summary.requests, 1);
/// # Ok::<(), tidegate_sim::log::LogReadError>(())
/// ```
#[derive(Debug)]
pub struct LogReader {
    names: LogFieldNames,
    format: Option<LogLineFormat>,
    slack: Span,
}

/// The formats of files, and whether they were merged.
type MergeSummary = (Vec<LogLineFormat>, bool);

impl LogReader {
    /// How long a request may take by default.
    pub const DEFAULT_SLACK: Span = Span::from_secs(30);

    /// Reads these attributes, and skips all others.
    pub fn new<'a>(wanted: impl IntoIterator<Item = &'a str>) -> Self {
        Self { names: LogFieldNames::new(wanted), format: None, slack: Self::DEFAULT_SLACK }
    }

    /// Reads this format instead of detecting it.
    #[must_use]
    pub fn format(self, format: Option<LogLineFormat>) -> Self {
        Self { format, ..self }
    }

    /// How late a line may come and still be sorted. Servers write a line at the end of a request, so
    /// this should be as long as the longest request.
    #[must_use]
    pub fn slack(self, slack: Span) -> Self {
        Self { slack, ..self }
    }

    /// Passes every request to `each`, in the order of their times. Several files are read in the order
    /// of their first requests, however they are given, since `access.log*` is not that order; and
    /// where they overlap, they are merged.
    ///
    /// # Errors
    ///
    /// If a file cannot be read to its end, or its format is unknown. The requests before that have
    /// been passed on.
    pub fn read(
        &self,
        inputs: Vec<LogInput>,
        progress: &WorkProgress,
        each: impl FnMut(&LogRequest<'_>),
    ) -> Result<LogSummary, LogReadError> {
        let (inputs, is_other_order) = self.sort_by_first_request(inputs);
        let files: Vec<String> = inputs.iter().map(|(_, input)| input.name().to_owned()).collect();
        if let Some(total) = inputs.iter().map(|(_, input)| input.length()).sum::<Option<u64>>() {
            progress.add_expected(total);
        }
        let ahead = Span::from_micros(self.slack.as_micros() / 2);
        let (names, format) = (&self.names, self.format);
        let merge = LogMerger::new(inputs, MergeSettings { names, format, ahead, progress });
        thread::scope(|scope| {
            let (mut to, mut from) = (Vec::new(), Vec::new());
            for _ in 0..parser_count() {
                let (work, blocks, parser) = self.new_parser();
                scope.spawn(parser);
                to.push(work);
                from.push(blocks);
            }
            let reader = scope.spawn(move || Self::distribute(merge, &to));
            let mut summary = self.emit_in_order(&from, &files, each);
            // Threads that are still reading fail to send, and end.
            drop(from);
            let merged = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (summary.formats, summary.has_merged) = merged?;
            if is_other_order {
                summary.order = files;
            }
            Ok(summary)
        })
    }

    /// Sorts files by their first requests, and returns whether that changed their order. Files
    /// without requests come last.
    fn sort_by_first_request(
        &self,
        mut inputs: Vec<LogInput>,
    ) -> (Vec<(Option<Timestamp>, LogInput)>, bool) {
        let is_one = inputs.len() == 1;
        let begin = |(place, mut input): (usize, LogInput)| {
            // A single file needs no comparison.
            let start = if is_one { Vec::new() } else { input.preview() };
            let first = first_time(&self.names, self.format, &start);
            (place, (first, input))
        };
        let mut all: Vec<_> = inputs.drain(..).enumerate().map(begin).collect();
        all.sort_by_key(|(place, (first, _))| (first.is_none(), *first, *place));
        let is_other = all.iter().enumerate().any(|(now, (place, _))| now != *place);
        (all.into_iter().map(|(_, input)| input).collect(), is_other)
    }

    /// A parser, and the ends of its two queues, which are short so that memory is bounded.
    fn new_parser(&self) -> (SyncSender<LogFileChunk>, Receiver<LogBlock>, impl FnOnce() + Send) {
        let (work_in, work) = sync_channel::<LogFileChunk>(PARSER_QUEUE);
        let (blocks, blocks_out) = sync_channel(PARSER_QUEUE);
        let run = move || {
            let mut scratch = Vec::new();
            for LogFileChunk { file, layout, chunk } in work {
                let parse = |line: &[u8], fill: &mut super::block::LogRowBuilder<'_>| {
                    layout.parse(line, &mut scratch, fill)
                };
                let block = LogBlock::parse(&self.names, file, chunk.line, chunk.text, parse);
                if blocks.send(block).is_err() {
                    return;
                }
            }
        };
        (work_in, blocks_out, run)
    }

    /// Sends chunks to the parsers in turn, so that blocks can be received in turn.
    fn distribute(
        mut merge: LogMerger<'_>,
        parsers: &[SyncSender<LogFileChunk>],
    ) -> Result<MergeSummary, LogReadError> {
        let mut turns = parsers.iter().cycle();
        while let Some(chunk) = merge.next()? {
            // Sending fails if the caller has stopped.
            if turns.next().is_none_or(|parser| parser.send(chunk).is_err()) {
                break;
            }
        }
        Ok((merge.formats, merge.has_merged))
    }

    fn emit_in_order(
        &self,
        parsers: &[Receiver<LogBlock>],
        files: &[String],
        mut each: impl FnMut(&LogRequest<'_>),
    ) -> LogSummary {
        let names = &self.names;
        let mut summary = LogSummary::default();
        let mut present = vec![0_u64; names.attributes().len()];
        let mut reorder = ReorderBuffer::new(self.slack);
        let mut decide = |(at, (block, row)): (Timestamp, (Arc<LogBlock>, usize))| {
            let line = block.rows.get(row).map_or(0, |row| row.line);
            each(&LogRequest { at, line, names, block: &block, row });
        };
        for (number, parser) in parsers.iter().cycle().enumerate() {
            let Ok(block) = parser.recv() else { break };
            if number % HELD_BLOCKS == HELD_BLOCKS - 1 {
                reorder.take_stale().into_iter().for_each(&mut decide);
            }
            summary.add_block(&block, files);
            present.iter_mut().zip(&block.present).for_each(|(sum, count)| *sum += count);
            let block = Arc::new(block);
            for (index, row) in block.rows.iter().enumerate() {
                reorder.push(row.at, (block.clone(), index));
                while let Some(next) = reorder.pop_ready() {
                    decide(next);
                }
            }
        }
        while let Some(next) = reorder.pop() {
            decide(next);
        }
        (summary.late, summary.ahead) = (reorder.late, reorder.ahead);
        summary.attributes =
            names.attributes().iter().map(ToString::to_string).zip(present).collect();
        summary
    }
}

/// One for each core, except for the one that decides; at most four.
fn parser_count() -> usize {
    thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).clamp(1, 4)
}

const PARSER_QUEUE: usize = 2;
/// After this many blocks of about a megabyte, no row of a block is held any more.
const HELD_BLOCKS: usize = 48;
