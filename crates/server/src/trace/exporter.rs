//! Delivers spans to a collector, without making anyone wait.

use std::sync::Arc;
use std::time::Duration;

use tidegate_wire::otlp::Resource;
use tokio::time::{sleep, timeout};

use super::collector::{CollectorError, CollectorLink, TraceCollector};
use super::queue::SpanCounters;
use super::{SpanQueue, encode};
use crate::log::{self, LogLevel};

/// Takes spans from the queue to the collector, as one task on one runtime.
///
/// Spans that the collector does not accept are counted and dropped: while it is unavailable, spans
/// are not kept for it.
#[derive(Debug)]
pub struct SpanExporter {
    queue: Arc<SpanQueue>,
    resource: Resource,
}

impl SpanExporter {
    pub(super) fn new(queue: Arc<SpanQueue>, service: &str) -> Self {
        Self { queue, resource: encode::resource(service) }
    }

    /// Runs until `stop` resolves, and then once more for what has gathered.
    pub async fn run(self, collector: TraceCollector, stop: impl Future<Output = ()>) {
        let mut sending = ExportSession { link: CollectorLink::to(collector), failures: 0 };
        let forever = async {
            loop {
                tokio::select! {
                    () = self.queue.many() => {}
                    () = sleep(EVERY) => {}
                }
                self.export(&mut sending).await;
                sleep(sending.pause()).await;
            }
        };
        tokio::select! {
            () = forever => {}
            () = stop => {}
        }
        // Whatever was in progress when it stopped is not waited for.
        self.export(&mut sending).await;
    }

    async fn export(&self, sending: &mut ExportSession) {
        let (mut waiting, counts) = (self.queue.take(), self.queue.counts());
        while !waiting.is_empty() {
            let rest = waiting.split_off(waiting.len().min(BATCH));
            let count = waiting.len();
            let request = encode::request(&self.resource, waiting);
            let sent = timeout(PATIENCE, sending.link.export(&request)).await;
            match sent.unwrap_or(Err(CollectorError::Silent(PATIENCE))) {
                Ok(refused) => {
                    let refused = usize::try_from(refused).unwrap_or(usize::MAX).min(count);
                    SpanCounters::add(&counts.lost, refused);
                    SpanCounters::add(&counts.exported, count - refused);
                    sending.record_success();
                }
                Err(error) => {
                    SpanCounters::add(&counts.lost, count.saturating_add(rest.len()));
                    return sending.record_failure(&error);
                }
            }
            waiting = rest;
        }
    }
}

/// How things are going with the collector.
#[derive(Debug)]
struct ExportSession {
    link: CollectorLink,
    /// In a row.
    failures: u32,
}

impl ExportSession {
    fn record_success(&mut self) {
        if std::mem::take(&mut self.failures) > 0 {
            log::emit(LogLevel::Info, "traces_regained", "the collector takes traces again", &[]);
        }
    }

    /// Logged once, and not again until it has worked in between.
    fn record_failure(&mut self, error: &CollectorError) {
        if self.failures == 0 {
            let message = format!("traces are lost: {} {error}", self.link);
            log::emit(LogLevel::Warn, "traces_lost", &message, &[]);
        }
        self.failures = self.failures.saturating_add(1);
    }

    /// A collector that is unavailable is not asked all the time.
    fn pause(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => (EVERY * (1 << failures.min(6))).min(LONGEST_PAUSE),
        }
    }
}

/// How long a span waits for others.
const EVERY: Duration = Duration::from_secs(1);
/// How many are sent together.
const BATCH: usize = 512;
const PATIENCE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
