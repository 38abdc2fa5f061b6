//! The source of a log: a file, a pipe or memory, plain or compressed.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::LogReadError;
use crate::WorkProgress;

/// A log that can be read once.
pub struct LogInput {
    name: String,
    reader: Box<dyn Read + Send>,
    length: Option<u64>,
}

impl LogInput {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, LogReadError> {
        let name = path.display().to_string();
        let open = |name: &str| {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
            }
            let length = metadata.is_file().then_some(metadata.len());
            Ok(Self { name: name.to_owned(), reader: Box::new(file), length })
        };
        open(&name).map_err(|error| LogReadError::Open { name, error })
    }

    /// Standard input.
    pub fn stdin() -> Self {
        Self { name: "standard input".to_owned(), reader: Box::new(io::stdin()), length: None }
    }

    /// Bytes in memory.
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let length = Some(bytes.len() as u64);
        Self { name: name.into(), reader: Box::new(Cursor::new(bytes)), length }
    }

    /// The name of the file, or of another source.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its length in bytes, if known.
    pub(super) const fn length(&self) -> Option<u64> {
        self.length
    }

    /// The beginning of the log, unpacked. It can still be read afterwards.
    pub(super) fn preview(&mut self) -> Vec<u8> {
        let mut packed = Vec::new();
        // If this fails, reading the log fails too and reports the error.
        let _ = self.reader.by_ref().take(PREVIEW_BYTES).read_to_end(&mut packed);
        let mut start = Vec::new();
        match packed.starts_with(&GZIP) {
            // The archive is cut off in the middle, so an error is expected here.
            true => drop(MultiGzDecoder::new(&*packed).take(PREVIEW_BYTES).read_to_end(&mut start)),
            false => start.clone_from(&packed),
        }
        let rest = std::mem::replace(&mut self.reader, Box::new(io::empty()));
        self.reader = Box::new(Cursor::new(packed).chain(rest));
        start
    }

    /// Reads the log, unpacked if it is compressed, and adds what was read to `progress`.
    pub(super) fn into_reader<'p>(
        self,
        progress: &'p WorkProgress,
    ) -> io::Result<Box<dyn Read + Send + 'p>> {
        let mut reader = ProgressReader { reader: self.reader, progress };
        let mut start = Vec::new();
        reader.by_ref().take(2).read_to_end(&mut start)?;
        let is_gzip = start == GZIP;
        let whole = Cursor::new(start).chain(reader);
        Ok(match is_gzip {
            true => Box::new(MultiGzDecoder::new(BufReader::with_capacity(256 << 10, whole))),
            false => Box::new(whole),
        })
    }
}

impl std::fmt::Debug for LogInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogInput").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Enough for many lines.
const PREVIEW_BYTES: u64 = 64 << 10;

/// A reader that adds what was read to a progress.
struct ProgressReader<'p, R> {
    reader: R,
    progress: &'p WorkProgress,
}

impl<R: Read> Read for ProgressReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.progress.add(count as u64);
        Ok(count)
    }
}
