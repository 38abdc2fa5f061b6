//! The access log: a JSON object for each request, written by a separate thread. A request never waits
//! for it; a line that does not fit into its queue is counted and dropped.

mod losses;
mod record;
mod target;

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use tidegate::{Clock as _, SystemClock, Timestamp};
use tidegate_server::log::LineWriter;

use losses::AccessLogLosses;
pub(crate) use record::{AccessLogRecord, AccessLogRequest};
use target::AccessLogTarget;

use crate::config::AccessLogPlan;

/// An open access log.
#[derive(Debug)]
pub(crate) struct AccessLog {
    config: AccessLogPlan,
    writer: LineWriter,
    losses: Arc<AccessLogLosses>,
    clock: SystemClock,
    /// Random in every process, so that hashed keys cannot be looked up in a table.
    secret: RandomState,
}

impl AccessLog {
    /// Opens the log. `lost` counts the lines that it loses.
    pub(crate) fn open(
        config: &AccessLogPlan,
        lost: Arc<AtomicU64>,
    ) -> Result<Self, AccessLogError> {
        let losses = Arc::new(AccessLogLosses::new(config.file.as_deref(), lost));
        let wrong = |why| AccessLogError { file: losses.name().to_owned(), why };
        Ok(Self {
            writer: start(AccessLogTarget::new(config.file.as_deref(), Arc::clone(&losses)))
                .map_err(wrong)?,
            losses,
            config: config.clone(),
            clock: SystemClock::new(),
            secret: RandomState::new(),
        })
    }

    /// Whether the log was opened with this configuration.
    pub(crate) fn has_config(&self, config: &AccessLogPlan) -> bool {
        self.config == *config
    }

    /// A record for a request that begins now, if the request is in the sample.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Box<AccessLogRecord>> {
        let is_meant = self.config.sample_permille >= 1_000
            || fastrand::u16(..1_000) < self.config.sample_permille;
        is_meant.then(|| Box::new(AccessLogRecord::new(Arc::clone(self))))
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A caller's key as the log shows it: in plain text or hashed.
    fn display_key(&self, key: &str) -> String {
        match self.config.shows_keys {
            true => key.to_owned(),
            false => format!("#{:016x}", self.secret.hash_one(key)),
        }
    }

    fn write(&self, line: Vec<u8>) {
        if !self.writer.send(line) {
            self.losses.add(1, &"they are not read fast enough");
        }
    }
}

/// The reason why the log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("access log {file}: {why}")]
pub(crate) struct AccessLogError {
    file: String,
    why: io::Error,
}

/// Opens a target on the thread that writes to it, because opening can block forever, for example for a
/// pipe without a reader. Only an early error is returned; after `OPEN_TIMEOUT` the thread keeps trying.
fn start(mut target: AccessLogTarget) -> io::Result<LineWriter> {
    let (sender, opened) = sync_channel(1);
    let open = move || {
        // On an error, `start` drops the writer, which ends this thread.
        let _ = sender.try_send(target.open());
        Some(move |lines: &[u8]| target.write(lines))
    };
    let writer = LineWriter::start("access-log", MAX_WAITING, open)?;
    match opened.recv_timeout(OPEN_TIMEOUT) {
        Ok(Err(error)) => Err(error),
        Ok(Ok(())) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(writer),
    }
}

/// Bytes in the queue of the thread.
const MAX_WAITING: usize = 16 << 20;
const OPEN_TIMEOUT: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Sends the written bytes to a channel.
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

    /// A target, the channel of results for its opener, and the channel of written bytes.
    fn target() -> (AccessLogTarget, Sender<io::Result<()>>, std::sync::mpsc::Receiver<Vec<u8>>) {
        let ((answer, answers), (sender, written)) = (channel::<io::Result<()>>(), channel());
        let opener = move || -> io::Result<target::AccessLogOutput> {
            answers.recv().unwrap_or_else(|_| Err(ErrorKind::NotFound.into()))?;
            Ok(Box::new(ChannelWriter(sender.clone())))
        };
        let losses = Arc::new(AccessLogLosses::new(None, Arc::default()));
        (AccessLogTarget::with_opener(opener, losses), answer, written)
    }

    #[test]
    fn a_log_whose_open_fails_late_is_opened_again() {
        let (target, answer, written) = target();
        // Opening has no result before the timeout.
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
