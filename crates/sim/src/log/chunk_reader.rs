//! Reads a log in chunks of whole lines.

use std::io::{self, Read};

/// Splits a log into chunks of about a megabyte.
pub(super) struct LogChunkReader<R> {
    reader: R,
    /// The beginning of a line whose end is in the next chunk.
    carry: Vec<u8>,
    line: u64,
    is_over: bool,
}

/// Some whole lines of a log.
pub(super) struct LogChunk {
    /// The number of the first line, from one.
    pub(super) line: u64,
    pub(super) text: Vec<u8>,
}

impl LogChunk {
    /// Splits the chunk into the lines before this one and the rest.
    pub(super) fn cut_before(mut self, line: u64) -> (Self, Self) {
        let before = line.saturating_sub(self.line);
        let ends = memchr::memchr_iter(b'\n', &self.text);
        let at = match before {
            0 => 0,
            _ => ends.take(before as usize).last().map_or(0, |end| end + 1),
        };
        let text = self.text.split_off(at);
        (self, Self { line, text })
    }
}

impl<R: Read> LogChunkReader<R> {
    pub(super) const fn new(reader: R) -> Self {
        Self { reader, carry: Vec::new(), line: 1, is_over: false }
    }

    /// The number of the next line.
    pub(super) const fn line(&self) -> u64 {
        self.line
    }

    /// The next chunk; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<LogChunk>> {
        let mut text = std::mem::take(&mut self.carry);
        if !self.is_over {
            text.reserve_exact(CHUNK_BYTES);
            let read = self.reader.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut text)?;
            self.is_over = read < CHUNK_BYTES;
        }
        if text.is_empty() {
            return Ok(None);
        }
        if !self.is_over {
            match memchr::memrchr(b'\n', &text) {
                Some(at) => self.carry = text.split_off(at + 1),
                // Drop the rest of the line: it is too long to be a request.
                None => self.skip_line()?,
            }
        }
        let chunk = LogChunk { line: self.line, text };
        let ends = memchr::memchr_iter(b'\n', &chunk.text).count() as u64;
        self.line += ends + u64::from(!chunk.text.ends_with(b"\n"));
        Ok(Some(chunk))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let mut text = Vec::new();
            self.reader.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut text)?;
            self.is_over = text.len() < CHUNK_BYTES;
            match memchr::memchr(b'\n', &text) {
                Some(at) => {
                    self.carry = text.split_off(at + 1);
                    return Ok(());
                }
                None if self.is_over => return Ok(()),
                None => {}
            }
        }
    }
}

const CHUNK_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<(u64, usize)> {
        let mut chunks = LogChunkReader::new(text);
        let mut lines = Vec::new();
        while let Some(chunk) = chunks.next().unwrap() {
            let whole = chunk.text.strip_suffix(b"\n").unwrap_or(&chunk.text);
            let lengths = whole.split(|byte| *byte == b'\n').map(<[u8]>::len);
            lines.extend((chunk.line..).zip(lengths));
        }
        lines
    }

    #[test]
    fn lines_survive_being_cut_anywhere() {
        let mut text = Vec::new();
        let mut expected = Vec::new();
        for (number, length) in (1..).zip((0..70_000).map(|n: usize| n * 7_919 % 150)) {
            text.extend(std::iter::repeat_n(b'x', length));
            text.push(b'\n');
            expected.push((number, length));
        }
        assert!(text.len() > 4 * CHUNK_BYTES);
        assert_eq!(lines(&text), expected);
        text.pop();
        assert_eq!(lines(&text), expected, "the last line need not end");
    }

    #[test]
    fn a_line_without_end_takes_no_memory_and_hides_no_other() {
        let mut text = b"first\n".to_vec();
        text.extend(std::iter::repeat_n(b'x', 5 * CHUNK_BYTES));
        text.extend(b"\nlast\n");
        let lines = lines(&text);
        assert_eq!((lines[0], lines.len()), ((1, 5), 3));
        assert!(lines[1].0 == 2 && lines[1].1 <= 2 * CHUNK_BYTES);
        assert_eq!(lines[2], (3, 4));
    }
}
