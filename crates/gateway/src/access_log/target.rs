//! The output of the access log: a file or standard output, reopened when it was moved or has failed.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::losses::AccessLogLosses;

/// An open file or standard output.
pub(super) type AccessLogOutput = Box<dyn Write + Send>;

/// The file or standard output that lines are written to, whether open or not.
pub(super) struct AccessLogTarget {
    /// The path of a file, which log rotation can move away.
    path: Option<PathBuf>,
    opener: Box<dyn FnMut() -> io::Result<AccessLogOutput> + Send>,
    /// `None` while the target cannot be opened.
    out: Option<AccessLogOutput>,
    /// Whether the last line was written only in part.
    is_torn: bool,
    losses: Arc<AccessLogLosses>,
}

impl AccessLogTarget {
    /// A target for the file at `path`, or for standard output without a path.
    pub(super) fn new(path: Option<&Path>, losses: Arc<AccessLogLosses>) -> Self {
        let file = path.map(Path::to_owned);
        let opener = move || -> io::Result<AccessLogOutput> {
            match &file {
                None => Ok(Box::new(io::stdout())),
                Some(path) => Ok(Box::new(open(path)?)),
            }
        };
        Self { path: path.map(Path::to_owned), ..Self::with_opener(opener, losses) }
    }

    /// A target that `opener` opens.
    pub(super) fn with_opener(
        opener: impl FnMut() -> io::Result<AccessLogOutput> + Send + 'static,
        losses: Arc<AccessLogLosses>,
    ) -> Self {
        Self { path: None, opener: Box::new(opener), out: None, is_torn: false, losses }
    }

    /// Opens the target. For a pipe without a reader, this blocks forever.
    pub(super) fn open(&mut self) -> io::Result<()> {
        self.out = Some((self.opener)()?);
        self.is_torn = false;
        Ok(())
    }

    /// Writes whole lines. Lines are lost only if the disk is full or the file cannot be opened or written.
    pub(super) fn write(&mut self, lines: &[u8]) {
        let opened = self.reopen_if_moved();
        let Some(out) = &mut self.out else {
            let why = opened.err().unwrap_or_else(|| ErrorKind::NotFound.into());
            return self.losses.add(count(lines), &why);
        };
        if self.is_torn && out.write_all(b"\n").is_ok() {
            self.is_torn = false;
        }
        let (written, ended) = write_all(out, lines);
        let (done, left) = lines.split_at(written);
        if let Some(last) = done.last() {
            self.is_torn = *last != b'\n';
        }
        match ended {
            Ok(()) => self.losses.end_outage(),
            Err(why) => self.losses.add(count(left), &why),
        }
    }

    /// Opens a new file after log rotation has moved the old one away. Retries a file that could not be
    /// opened.
    fn reopen_if_moved(&mut self) -> io::Result<()> {
        let is_gone = self.path.as_ref().is_some_and(|path| !path.exists());
        if self.out.is_none() || is_gone { self.open() } else { Ok(()) }
    }
}

/// The number of bytes written, and the error if it is not all of them.
fn write_all(out: &mut dyn Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut left = bytes;
    while !left.is_empty() {
        match out.write(left) {
            Ok(0) => return (bytes.len() - left.len(), Err(ErrorKind::WriteZero.into())),
            Ok(count) => left = left.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (bytes.len() - left.len(), Err(error)),
        }
    }
    (bytes.len(), out.flush())
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use parking_lot::Mutex;

    use super::*;

    /// A disk: its free bytes, and its contents.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (room, written) = &mut *self.0.lock();
            let count = bytes.len().min(*room);
            if count == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            *room -= count;
            written.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_loses_whole_lines_and_each_is_counted() {
        let (disk, count) = (Disk::default(), Arc::new(AtomicU64::new(0)));
        let losses = Arc::new(AccessLogLosses::new(None, Arc::clone(&count)));
        let on_it = disk.clone();
        let mut target = AccessLogTarget::with_opener(move || Ok(Box::new(on_it.clone())), losses);
        disk.0.lock().0 = 5;
        target.write(b"aa\nbbbb\ncc\n");
        assert_eq!(count.load(Ordering::Relaxed), 2);
        target.write(b"dd\n");
        assert_eq!(count.load(Ordering::Relaxed), 3);
        disk.0.lock().0 = 100;
        target.write(b"ee\nff\n");
        assert_eq!(disk.0.lock().1, b"aa\nbb\nee\nff\n", "half a line does not spoil the next one");
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }
}
