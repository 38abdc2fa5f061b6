//! The queue of finished spans that wait for the exporter.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::TraceSpan;
use crate::service::metrics::{SLOTS, slot};

/// A queue of fixed size. Each worker has a part of its own, so that adding a span never waits for other
/// workers; the exporter is woken up once for many spans.
#[derive(Debug)]
pub(crate) struct SpanQueue {
    parts: [CachePadded<Mutex<Vec<TraceSpan>>>; SLOTS],
    many: Notify,
    counts: SpanCounters,
}

/// Counts of finished spans, by outcome.
#[derive(Debug, Default)]
pub(crate) struct SpanCounters {
    /// Spans that a collector accepted.
    pub(crate) exported: AtomicU64,
    /// Spans that found the queue full.
    pub(crate) dropped: AtomicU64,
    /// Spans that were taken from the queue, but that no collector accepted.
    pub(crate) lost: AtomicU64,
}

impl SpanQueue {
    pub(crate) fn new() -> Self {
        Self { parts: Default::default(), many: Notify::new(), counts: SpanCounters::default() }
    }

    pub(crate) fn push(&self, span: TraceSpan) {
        let Some(part) = self.parts.get(slot()) else { return };
        let mut part = part.lock();
        if part.len() >= MAX_WAITING {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        part.push(span);
        let is_many = part.len() == MANY;
        drop(part);
        if is_many {
            self.many.notify_one();
        }
    }

    /// Waits until one part holds many spans.
    pub(crate) async fn many(&self) {
        self.many.notified().await;
    }

    /// Takes all queued spans.
    pub(crate) fn take(&self) -> Vec<TraceSpan> {
        self.parts.iter().flat_map(|part| std::mem::take(&mut *part.lock())).collect()
    }

    pub(crate) const fn counts(&self) -> &SpanCounters {
        &self.counts
    }
}

impl SpanCounters {
    pub(crate) fn add(counter: &AtomicU64, spans: usize) {
        counter.fetch_add(spans as u64, Ordering::Relaxed);
    }
}

/// Spans in one part: about a megabyte.
const MAX_WAITING: usize = 2_048;
/// As many spans as the exporter sends together.
const MANY: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_there_is_no_room_for_is_counted() {
        let queue = SpanQueue::new();
        for _ in 0..MAX_WAITING + 3 {
            queue.push(*TraceSpan::begin("a", 1, None));
        }
        queue.many().await;
        assert_eq!(queue.counts().dropped.load(Ordering::Relaxed), 3);
        assert_eq!(queue.take().len(), MAX_WAITING);
        assert!(queue.take().is_empty());
        queue.push(*TraceSpan::begin("a", 1, None));
        assert_eq!(queue.take().len(), 1);
    }
}
