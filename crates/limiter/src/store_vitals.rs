//! How a remote store is doing.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Span;
use tidegate_store::{StoreError, StoreErrorKind};

use crate::histogram::{Histogram, HistogramSnapshot};

/// Counts what a store answers, and how fast.
#[derive(Debug, Default)]
pub(crate) struct StoreVitals {
    latency: Histogram,
    errors: [AtomicU64; StoreErrorKind::ALL.len()],
}

/// How a store is doing, since the start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreReport {
    /// Whether it is remote. If not, it cannot fail, and is not timed.
    pub is_remote: bool,
    /// Whether it is currently being asked.
    pub is_available: bool,
    /// What is wrong with it, as decisions saw it last.
    pub problem: Option<String>,
    /// How long it usually takes to answer now, if it is remote and has answered.
    pub round_trip: Option<Span>,
    /// How long its answers took. Requests that got none in time are included with the time they
    /// waited.
    pub latency: HistogramSnapshot,
    /// How often it failed, by kind.
    pub errors: Vec<(StoreErrorKind, u64)>,
}

impl StoreVitals {
    pub(crate) fn record_answer(&self, took: Span) {
        self.latency.record(took.as_micros().saturating_mul(1_000));
    }

    pub(crate) fn record_failure(&self, error: &StoreError, took: Span) {
        if error.kind() == StoreErrorKind::Timeout {
            self.record_answer(took);
        }
        let place = StoreErrorKind::ALL.iter().position(|kind| *kind == error.kind());
        if let Some(count) = place.and_then(|place| self.errors.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn latency(&self) -> HistogramSnapshot {
        self.latency.snapshot()
    }

    pub(crate) fn errors(&self) -> Vec<(StoreErrorKind, u64)> {
        let counts = self.errors.iter().map(|count| count.load(Ordering::Relaxed));
        StoreErrorKind::ALL.iter().copied().zip(counts).collect()
    }
}
