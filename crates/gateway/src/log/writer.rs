//! The thread that writes.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Writes lines, in the order in which they come. Dropping it waits until all are written.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

/// Why nothing can be written.
#[derive(Debug, thiserror::Error)]
#[error("access log {file}: {why}")]
pub(crate) struct LogError {
    file: String,
    why: io::Error,
}

impl Writer {
    /// To a file, or to standard output.
    pub(super) fn start(file: Option<&Path>) -> Result<Self, LogError> {
        let name = || file.map_or_else(|| "-".to_owned(), |file| file.display().to_string());
        let wrong = |why| LogError { file: name(), why };
        let target = Target::open(file).map_err(wrong)?;
        let (queue, lines) = sync_channel(QUEUE);
        let work = move || run(target, &lines);
        let thread = thread::Builder::new().name("access-log".to_owned()).spawn(work);
        Ok(Self { queue: Some(queue), thread: Some(thread.map_err(wrong)?) })
    }

    /// Whether there was room for a line.
    pub(super) fn send(&self, line: Vec<u8>) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.try_send(line).is_ok())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes what comes, and hands it to the system whenever nothing more is waiting. A disk that is
/// full loses lines, and nothing else.
fn run(mut target: Target, lines: &Receiver<Vec<u8>>) {
    while let Ok(line) = lines.recv() {
        target.follow();
        let mut next = Some(line);
        while let Some(line) = next {
            let _ = target.out.write_all(&line);
            next = lines.try_recv().ok();
        }
        let _ = target.out.flush();
    }
}

struct Target {
    path: Option<PathBuf>,
    out: Box<dyn Write + Send>,
}

impl Target {
    fn open(path: Option<&Path>) -> io::Result<Self> {
        let out: Box<dyn Write + Send> = match path {
            None => Box::new(BufWriter::new(io::stdout())),
            Some(path) => Box::new(BufWriter::with_capacity(BUFFER, open(path)?)),
        };
        Ok(Self { path: path.map(Path::to_owned), out })
    }

    /// A file that was moved away, by whoever keeps logs small, is begun anew.
    fn follow(&mut self) {
        let Some(path) = &self.path else { return };
        if !path.exists()
            && let Ok(file) = open(path)
        {
            self.out = Box::new(BufWriter::with_capacity(BUFFER, file));
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

const QUEUE: usize = 16 << 10;
const BUFFER: usize = 64 << 10;
