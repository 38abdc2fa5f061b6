//! Where lines go, and what became of those that did not get there.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::losses::Losses;

/// A file, or standard output.
pub(super) struct Target {
    path: Option<PathBuf>,
    out: Box<dyn Write + Send>,
    /// Whether the last line was written in part.
    is_torn: bool,
    losses: Arc<Losses>,
}

impl Target {
    /// This may take for ever, for a pipe that nobody reads.
    pub(super) fn open(path: Option<&Path>, losses: Arc<Losses>) -> io::Result<Self> {
        let out: Box<dyn Write + Send> = match path {
            None => Box::new(io::stdout()),
            Some(path) => Box::new(open(path)?),
        };
        Ok(Self { path: path.map(Path::to_owned), out, is_torn: false, losses })
    }

    /// Writes whole lines. A disk that is full loses lines, and nothing else.
    pub(super) fn write(&mut self, lines: &[u8]) {
        self.follow();
        if self.is_torn && self.out.write_all(b"\n").is_ok() {
            self.is_torn = false;
        }
        let (written, ended) = write_all(&mut self.out, lines);
        let (done, left) = lines.split_at(written);
        if let Some(last) = done.last() {
            self.is_torn = *last != b'\n';
        }
        match ended {
            Ok(()) => self.losses.have_an_end(),
            Err(why) => self.losses.add(count(left), &why),
        }
    }

    /// A file that was moved away, by whoever keeps logs small, is begun anew.
    fn follow(&mut self) {
        let Some(path) = &self.path else { return };
        if !path.exists()
            && let Ok(file) = open(path)
        {
            (self.out, self.is_torn) = (Box::new(file), false);
        }
    }
}

/// How many bytes were written, and why not all of them.
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

    /// A disk with this much room, and what is on it.
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
        let losses = Arc::new(Losses::new(None, Arc::clone(&count)));
        let mut target = Target { path: None, out: Box::new(disk.clone()), is_torn: false, losses };
        disk.0.lock().0 = 5;
        target.write(b"aa\nbbbb\ncc\n");
        assert_eq!(count.load(Ordering::Relaxed), 2);
        target.write(b"dd\n");
        assert_eq!(count.load(Ordering::Relaxed), 3);
        disk.0.lock().0 = 100;
        target.write(b"ee\nff\n");
        assert_eq!(disk.0.lock().1, b"aa\nbb\nee\nff\n", "half of a line spoils no other");
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }
}
