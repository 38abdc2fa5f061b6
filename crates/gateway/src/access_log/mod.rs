//! The access log: a JSON object for each request, written by a thread of its own. A request never
//! waits for it; what does not fit into its queue is counted and dropped.

mod losses;
mod record;
mod target;

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use tidegate::config::gateway;
use tidegate::{Clock as _, SystemClock, Timestamp};
use tidegate_server::log::LineWriter;

use losses::AccessLogLosses;
pub(crate) use record::{AccessLogRecord, AccessLogRequest};
use target::AccessLogTarget;

/// Where requests are written down.
#[derive(Debug)]
pub(crate) struct AccessLog {
    about: gateway::AccessLogPlan,
    writer: LineWriter,
    losses: Arc<AccessLogLosses>,
    clock: SystemClock,
    /// Other in every process: what is hashed cannot be looked up in a table.
    secret: RandomState,
}

impl AccessLog {
    /// Counts the lines that it loses in `lost`.
    pub(crate) fn open(
        about: &gateway::AccessLogPlan,
        lost: Arc<AtomicU64>,
    ) -> Result<Self, AccessLogError> {
        let losses = Arc::new(AccessLogLosses::new(about.file.as_deref(), lost));
        let wrong = |why| AccessLogError { file: losses.name().to_owned(), why };
        Ok(Self {
            writer: start(AccessLogTarget::new(about.file.as_deref(), Arc::clone(&losses)))
                .map_err(wrong)?,
            losses,
            about: about.clone(),
            clock: SystemClock::new(),
            secret: RandomState::new(),
        })
    }

    /// Whether it was opened by this.
    pub(crate) fn has_config(&self, about: &gateway::AccessLogPlan) -> bool {
        self.about == *about
    }

    /// A record of a request that begins now, if it is one of the sample.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Box<AccessLogRecord>> {
        let is_meant = self.about.sample_permille >= 1_000
            || fastrand::u16(..1_000) < self.about.sample_permille;
        is_meant.then(|| Box::new(AccessLogRecord::new(Arc::clone(self))))
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A caller as it is shown.
    fn display_key(&self, key: &str) -> String {
        match self.about.shows_keys {
            true => key.to_owned(),
            false => format!("#{:016x}", self.secret.hash_one(key)),
        }
    }

    fn write(&self, line: Vec<u8>) {
        if !self.writer.send(line) {
            self.losses.add(1, &"nobody takes them, or not fast enough");
        }
    }
}

/// Why nothing can be written.
#[derive(Debug, thiserror::Error)]
#[error("access log {file}: {why}")]
pub(crate) struct AccessLogError {
    file: String,
    why: io::Error,
}

/// Opens a target on the thread that writes to it: that may take for ever, if it is a pipe that nobody
/// reads, say. Whatever does not work out soon may work out later, also if it fails meanwhile.
fn start(mut target: AccessLogTarget) -> io::Result<LineWriter> {
    let (told, opened) = sync_channel(1);
    let open = move || {
        // Whoever is told of an error drops the writer, which ends this thread.
        let _ = told.try_send(target.open());
        Some(move |lines: &[u8]| target.write(lines))
    };
    let writer = LineWriter::start("access-log", MAX_WAITING, open)?;
    match opened.recv_timeout(PATIENCE) {
        Ok(Err(error)) => Err(error),
        Ok(Ok(())) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(writer),
    }
}

/// In bytes.
const MAX_WAITING: usize = 16 << 20;
const PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Hands on what is written.
    struct ChannelWriter(Sender<Vec<u8>>);

    impl Write for ChannelWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(|_| ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is opened by the answers of a channel, and what is written to it.
    fn target() -> (AccessLogTarget, Sender<io::Result<()>>, std::sync::mpsc::Receiver<Vec<u8>>) {
        let ((answer, answers), (told, written)) = (channel::<io::Result<()>>(), channel());
        let opener = move || -> io::Result<target::AccessLogOutput> {
            answers.recv().unwrap_or_else(|_| Err(ErrorKind::NotFound.into()))?;
            Ok(Box::new(ChannelWriter(told.clone())))
        };
        let losses = Arc::new(AccessLogLosses::new(None, Arc::default()));
        (AccessLogTarget::with_opener(opener, losses), answer, written)
    }

    #[test]
    fn a_log_whose_open_fails_late_is_opened_again() {
        let (target, answer, written) = target();
        // Nobody is told in time whether it can be opened.
        let writer = start(target).unwrap();
        answer.send(Err(ErrorKind::StaleNetworkFileHandle.into())).unwrap();
        answer.send(Err(ErrorKind::StaleNetworkFileHandle.into())).unwrap();
        answer.send(Ok(())).unwrap();
        let line = loop {
            assert!(writer.send(b"{}\n".to_vec()), "its thread has ended");
            if let Ok(line) = written.recv_timeout(Duration::from_millis(5)) {
                break line;
            }
        };
        assert!(line.starts_with(b"{}\n"));
    }

    #[test]
    fn a_log_that_cannot_be_opened_is_refused() {
        let (target, answer, _) = target();
        answer.send(Err(ErrorKind::PermissionDenied.into())).unwrap();
        assert_eq!(start(target).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}
