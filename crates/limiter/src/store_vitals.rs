//! Latency and errors of a remote store.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Span;
use tidegate_store::{StoreError, StoreErrorKind};

use crate::histogram::{Histogram, HistogramSnapshot};

/// Counts a store's errors and the latency of its answers.
#[derive(Debug, Default)]
pub(crate) struct StoreVitals {
    latency: Histogram,
    errors: [AtomicU64; StoreErrorKind::ALL.len()],
}

/// The health of a store since the start.
///
/// The counts are this limiter's: another limiter on the same store has its own.
///
/// ```
/// use tidegate::Limiter;
///
/// let report = Limiter::builder().limit("1/s").build()?.store_report();
/// assert!(report.is_available && !report.is_remote);
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreReport {
    /// Whether the store is remote. A local store cannot fail, and is not timed.
    pub is_remote: bool,
    /// Whether requests are currently sent to it.
    pub is_available: bool,
    /// The latest problem, as seen by decisions.
    pub problem: Option<String>,
    /// The current typical round trip, if the store is remote and has answered.
    pub round_trip: Option<Span>,
    /// How long its answers took. Requests without an answer in time are included with the time they
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
        let index = StoreErrorKind::ALL.iter().position(|kind| *kind == error.kind());
        if let Some(count) = index.and_then(|index| self.errors.get(index)) {
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
