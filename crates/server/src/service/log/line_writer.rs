//! A thread that writes log lines, so that a slow reader of the log never blocks the server.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

/// Writes lines in the order in which they are sent. Neither sending a line nor dropping the writer ever
/// waits. Lines that are queued at the drop are still written, if the process lives long enough.
#[derive(Debug)]
pub struct LineWriter {
    queue: Sender<Vec<u8>>,
    backlog: Arc<LineBacklog>,
}

/// The size of the lines that have been sent and not been written.
#[derive(Debug)]
struct LineBacklog {
    bytes: AtomicUsize,
    most: usize,
}

impl LineWriter {
    /// Starts a thread that calls `open` once, and the function it returns with one or more lines at a
    /// time. At most `most` bytes wait in the queue.
    pub fn start<W: FnMut(&[u8])>(
        name: &str,
        most: usize,
        open: impl FnOnce() -> Option<W> + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, lines) = channel();
        let backlog = Arc::new(LineBacklog { bytes: AtomicUsize::new(0), most });
        let written = Arc::clone(&backlog);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Some(write) = open() {
                run(write, &lines, &written);
            }
        })?;
        let mut all = ALL.lock();
        all.retain(|backlog| backlog.strong_count() > 0);
        all.push(Arc::downgrade(&backlog));
        Ok(Self { queue, backlog })
    }

    /// Queues a line. Returns false if the queue is full: the line is lost.
    pub fn send(&self, line: Vec<u8>) -> bool {
        let (backlog, length) = (&self.backlog, line.len() + OVERHEAD);
        let room = backlog.most.saturating_sub(length);
        if backlog.bytes.fetch_add(length, Ordering::Relaxed) > room {
            backlog.bytes.fetch_sub(length, Ordering::Relaxed);
            return false;
        }
        // If the thread has ended, nothing is written any more, and `finish` must not wait for it.
        let is_sent = self.queue.send(line).is_ok();
        if !is_sent {
            backlog.bytes.fetch_sub(length, Ordering::Relaxed);
        }
        is_sent
    }
}

/// Writes queued lines in batches.
fn run(mut write: impl FnMut(&[u8]), lines: &Receiver<Vec<u8>>, backlog: &LineBacklog) {
    let mut batch = Vec::with_capacity(BATCH);
    while let Ok(line) = lines.recv() {
        let (mut next, mut length) = (Some(line), 0);
        while let Some(line) = next {
            length += line.len() + OVERHEAD;
            batch.extend_from_slice(&line);
            next = if batch.len() < BATCH { lines.try_recv().ok() } else { None };
        }
        write(&batch);
        batch.clear();
        backlog.bytes.fetch_sub(length, Ordering::Release);
    }
}

/// Waits until all writers have written their lines, before the process ends. At most a second: there
/// may be no reader.
pub(super) fn finish() {
    finish_within(FINISH_CHECKS);
}

/// The same, for this many checks.
fn finish_within(checks: usize) {
    let all = ALL.lock().clone();
    let is_pending = |backlog: &Weak<LineBacklog>| {
        backlog.upgrade().is_some_and(|backlog| backlog.bytes.load(Ordering::Acquire) > 0)
    };
    for _ in 0..checks {
        if !all.iter().any(is_pending) {
            return;
        }
        thread::park_timeout(LOOK_EVERY);
    }
}

/// The backlogs of all writers whose threads run.
static ALL: Mutex<Vec<Weak<LineBacklog>>> = Mutex::new(Vec::new());

/// The memory that a line takes in the queue besides its text, about.
const OVERHEAD: usize = 64;
/// Bytes that are written together.
const BATCH: usize = 64 << 10;
/// A second, in steps of [`LOOK_EVERY`].
const FINISH_CHECKS: usize = 500;
const LOOK_EVERY: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer, a sender that lets it write one batch, and the batches that it has written.
    fn held(most: usize) -> (LineWriter, Sender<()>, Receiver<Vec<u8>>) {
        let ((go, may_go), (batches, written)) = (channel(), channel());
        let open = move || {
            Some(move |batch: &[u8]| {
                let _ = may_go.recv();
                let _ = batches.send(batch.to_vec());
            })
        };
        (LineWriter::start("test", most, open).unwrap(), go, written)
    }

    #[test]
    fn the_last_lines_are_waited_for_even_if_nobody_holds_their_writer() {
        let (writer, go, written) = held(1 << 10);
        assert!(writer.send(b"a\n".to_vec()) && writer.send(b"b\n".to_vec()));
        drop(writer);
        let going = thread::spawn(move || (0..2).for_each(|_| go.send(()).unwrap_or_default()));
        finish_within(30_000);
        assert_eq!(written.try_iter().flatten().collect::<Vec<_>>(), b"a\nb\n");
        going.join().unwrap();
    }

    #[test]
    fn a_line_that_nobody_takes_is_not_waited_for() {
        let open = || None::<fn(&[u8])>;
        let writer = LineWriter::start("test", 1 << 10, open).unwrap();
        // Lines that are sent while the thread ends are lost.
        while writer.send(Vec::new()) {
            writer.backlog.bytes.store(0, Ordering::Relaxed);
            thread::yield_now();
        }
        assert!(!writer.send(b"a\n".to_vec()));
        assert_eq!(writer.backlog.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn attack_22_a_writer_that_stands_still_holds_nobody_up_and_takes_no_more_than_it_may() {
        let (writer, go, written) = held(1 << 20);
        let line = vec![b'x'; 1 << 10];
        let sent = (0..2_000).filter(|_| writer.send(line.clone())).count();
        assert!((900..=1_024).contains(&sent), "{sent}");
        assert!(!writer.send(vec![b'x'; 2 << 20]), "a line that never fits");
        drop(writer);
        drop(go);
        let bytes: usize = written.iter().map(|batch| batch.len()).sum();
        assert_eq!(bytes, sent << 10);
    }
}
