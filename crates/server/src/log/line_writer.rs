//! A thread that writes lines, so that nobody else waits for whoever reads them.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

/// Writes lines, in the order in which they come. Nobody ever waits for it: not who sends a line,
/// and not who drops it. What it has then, it still writes, if the process lives long enough.
#[derive(Debug)]
pub struct LineWriter {
    queue: Sender<Vec<u8>>,
    backlog: Arc<LineBacklog>,
}

/// What has been sent and not been written.
#[derive(Debug)]
struct LineBacklog {
    bytes: AtomicUsize,
    most: usize,
}

impl LineWriter {
    /// Starts a thread that calls `open`, and what that returns with one or more lines at a time.
    /// At most this many bytes wait for it.
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
        all.retain(|it| it.strong_count() > 0);
        all.push(Arc::downgrade(&backlog));
        Ok(Self { queue, backlog })
    }

    /// Whether there was room for a line.
    pub fn send(&self, line: Vec<u8>) -> bool {
        let (backlog, length) = (&self.backlog, line.len() + OVERHEAD);
        let room = backlog.most.saturating_sub(length);
        if backlog.bytes.fetch_add(length, Ordering::Relaxed) > room {
            backlog.bytes.fetch_sub(length, Ordering::Relaxed);
            return false;
        }
        // Without its thread, nothing is written any more, and nobody waits for it.
        let is_sent = self.queue.send(line).is_ok();
        if !is_sent {
            backlog.bytes.fetch_sub(length, Ordering::Relaxed);
        }
        is_sent
    }
}

/// Takes along what has gathered, up to a bound.
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

/// Waits until everything is written, for a process that is about to end. Not for long: there may be
/// nobody to read it.
pub(super) fn finish() {
    finish_within(LAST_WORDS);
}

/// The same, for this many looks.
fn finish_within(looks: usize) {
    let all = ALL.lock().clone();
    let waits = |it: &Weak<LineBacklog>| {
        it.upgrade().is_some_and(|backlog| backlog.bytes.load(Ordering::Acquire) > 0)
    };
    for _ in 0..looks {
        if !all.iter().any(waits) {
            return;
        }
        thread::park_timeout(LOOK_EVERY);
    }
}

/// Those whose threads run.
static ALL: Mutex<Vec<Weak<LineBacklog>>> = Mutex::new(Vec::new());

/// What a line takes in the queue besides its text.
const OVERHEAD: usize = 64;
const BATCH: usize = 64 << 10;
/// A second.
const LAST_WORDS: usize = 500;
const LOOK_EVERY: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer, what lets it write a batch, and what it has written.
    fn held(most: usize) -> (LineWriter, Sender<()>, Receiver<Vec<u8>>) {
        let ((go, may_go), (said, written)) = (channel(), channel());
        let open = move || {
            Some(move |batch: &[u8]| {
                let _ = may_go.recv();
                let _ = said.send(batch.to_vec());
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
        // What is sent while its thread ends is lost.
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
