//! Exports spans to a collector in the background.

use std::sync::Arc;
use std::time::Duration;

use tidegate_wire::otlp::Resource;
use tokio::time::{sleep, timeout};

use super::collector::{CollectorError, CollectorLink, TraceCollector};
use super::queue::SpanCounters;
use super::{SpanQueue, encode};
use crate::service::log::{self, LogLevel};

/// Sends spans from the queue to the collector, as one task on one runtime.
///
/// Spans that the collector does not accept are counted and dropped. They are not kept while the
/// collector is unavailable.
#[derive(Debug)]
pub struct SpanExporter {
    queue: Arc<SpanQueue>,
    resource: Resource,
}

impl SpanExporter {
    pub(super) fn new(queue: Arc<SpanQueue>, service: &str) -> Self {
        Self { queue, resource: encode::resource(service) }
    }

    /// Exports until `stop` resolves, and then once more for the spans that are still queued.
    pub async fn run(self, collector: TraceCollector, stop: impl Future<Output = ()>) {
        let mut session = ExportSession { link: CollectorLink::to(collector), failures: 0 };
        let forever = async {
            loop {
                tokio::select! {
                    () = self.queue.many() => {}
                    () = sleep(EVERY) => {}
                }
                self.export(&mut session).await;
                sleep(session.pause()).await;
            }
        };
        tokio::select! {
            () = forever => {}
            () = stop => {}
        }
        // An export in progress was cancelled by the stop.
        self.export(&mut session).await;
    }

    async fn export(&self, session: &mut ExportSession) {
        let (mut waiting, counts) = (self.queue.take(), self.queue.counts());
        while !waiting.is_empty() {
            let rest = waiting.split_off(waiting.len().min(BATCH));
            let count = waiting.len();
            let request = encode::request(&self.resource, waiting);
            let sent = timeout(PATIENCE, session.link.export(&request)).await;
            match sent.unwrap_or(Err(CollectorError::Silent(PATIENCE))) {
                Ok(refused) => {
                    let refused = usize::try_from(refused).unwrap_or(usize::MAX).min(count);
                    SpanCounters::add(&counts.lost, refused);
                    SpanCounters::add(&counts.exported, count - refused);
                    session.record_success();
                }
                Err(error) => {
                    SpanCounters::add(&counts.lost, count.saturating_add(rest.len()));
                    return session.record_failure(&error);
                }
            }
            waiting = rest;
        }
    }
}

/// The link to the collector, and its recent failures.
#[derive(Debug)]
struct ExportSession {
    link: CollectorLink,
    /// Consecutive failures.
    failures: u32,
}

impl ExportSession {
    fn record_success(&mut self) {
        if std::mem::take(&mut self.failures) > 0 {
            log::emit(LogLevel::Info, "traces_regained", "the collector accepts traces again", &[]);
        }
    }

    /// Logs the first of consecutive failures.
    fn record_failure(&mut self, error: &CollectorError) {
        if self.failures == 0 {
            let message = format!("traces are lost: {} {error}", self.link);
            log::emit(LogLevel::Warn, "traces_lost", &message, &[]);
        }
        self.failures = self.failures.saturating_add(1);
    }

    /// The pause before the next export: it grows while the collector is unavailable.
    fn pause(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => (EVERY * (1 << failures.min(6))).min(LONGEST_PAUSE),
        }
    }
}

/// How long a span waits for others.
const EVERY: Duration = Duration::from_secs(1);
/// How many spans are sent together.
const BATCH: usize = 512;
/// How long an export can take.
const PATIENCE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
