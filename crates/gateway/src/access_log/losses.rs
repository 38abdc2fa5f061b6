//! Lost lines of the access log: each is counted, and each outage is reported once.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_server::log::{self, LogLevel};
use tokio::time::Instant;

/// The lines that one access log has lost.
#[derive(Debug)]
pub(super) struct AccessLogLosses {
    /// The name of the log's file, or `-`.
    name: String,
    /// Shared by all logs of this process: the count continues when a reload opens another log.
    count: Arc<AtomicU64>,
    outage: Mutex<Option<AccessLogOutage>>,
}

/// The current outage.
#[derive(Debug)]
struct AccessLogOutage {
    lines: u64,
    last: Instant,
}

impl AccessLogLosses {
    pub(super) fn new(file: Option<&Path>, count: Arc<AtomicU64>) -> Self {
        let name = file.map_or_else(|| "-".to_owned(), |file| file.display().to_string());
        Self { name, count, outage: Mutex::new(None) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn add(&self, lines: u64, why: &dyn fmt::Display) {
        self.count.fetch_add(lines, Ordering::Relaxed);
        let mut outage = self.outage.lock();
        let before = outage.as_ref().map_or(0, |it| it.lines);
        if outage.is_none() {
            let message = format!("access log {}: lines are lost: {why}", self.name);
            log::emit(LogLevel::Warn, "access_log_lost", &message, &[("file", &self.name)]);
        }
        *outage = Some(AccessLogOutage { lines: before + lines, last: Instant::now() });
    }

    /// Called when lines are written: the outage is over if no line was lost for a while.
    pub(super) fn end_outage(&self) {
        let mut outage = self.outage.lock();
        if let Some(over) = outage.take_if(|it| it.last.elapsed() >= QUIET) {
            let message = format!("access log {}: {} lines were lost", self.name, over.lines);
            log::emit(LogLevel::Info, "access_log_regained", &message, &[("file", &self.name)]);
        }
    }
}

/// Losses with shorter pauses are one outage, so that a nearly full disk does not report every line.
const QUIET: Duration = Duration::from_secs(5);
