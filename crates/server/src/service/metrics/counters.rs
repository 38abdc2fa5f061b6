//! Counters of each policy's decisions, by outcome and source.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;
use tidegate::{Charge, Decision, DecisionSource, Fingerprint, RequestCharges, Verdict};

use super::slot::SLOTS;

/// The outcome of a policy for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricOutcome {
    /// All limits had room.
    Allowed,
    /// An enforced limit had no room.
    Denied,
    /// Only a limit in shadow mode had no room.
    ShadowDenied,
    /// The request cost nothing.
    Peeked,
}

impl MetricOutcome {
    pub(crate) const ALL: [Self; 4] =
        [Self::Allowed, Self::Denied, Self::ShadowDenied, Self::Peeked];

    /// The name in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::ShadowDenied => "shadow_denied",
            Self::Peeked => "peeked",
        }
    }

    /// The outcome for a single charge.
    pub(crate) const fn of_one(charge: &Charge<'_>, verdict: &Verdict) -> Self {
        match (verdict.allowed, charge.rule().enforced) {
            _ if charge.cost().is_peek() => Self::Peeked,
            (true, _) => Self::Allowed,
            (false, true) => Self::Denied,
            (false, false) => Self::ShadowDenied,
        }
    }

    /// The outcome of one policy, whose charges have these indices, regardless of other policies.
    pub(crate) fn of(
        charges: &RequestCharges<'_>,
        decision: &Decision,
        indices: Range<usize>,
    ) -> Self {
        let mut outcome = Self::Allowed;
        for index in indices {
            let Some(charge) = charges.charges().get(index) else { continue };
            if charge.cost().is_peek() {
                return Self::Peeked;
            }
            // A limit without a verdict was not evaluated: it denies if the decision does and it counts.
            let is_allowed_unasked = decision.is_allowed() || !decision.counts(index);
            let verdict = decision.verdicts().get(index);
            match charge.rule().enforced {
                _ if verdict.map_or(is_allowed_unasked, |verdict| verdict.allowed) => {}
                true => return Self::Denied,
                false => outcome = Self::ShadowDenied,
            }
        }
        outcome
    }
}

/// The counters of one policy. Cells are allocated on first use, so an unused policy takes little memory.
#[derive(Debug)]
pub(crate) struct PolicyCounters {
    pub(crate) name: Arc<str>,
    /// Distinguishes this policy's keys from the same keys of other policies.
    pub(crate) salt: Fingerprint,
    cells: [OnceLock<Box<CounterCells>>; SLOTS],
    early: AtomicU64,
}

type CounterCells = CachePadded<[AtomicU64; OUTCOMES * SOURCES]>;

const OUTCOMES: usize = MetricOutcome::ALL.len();
const SOURCES: usize = DecisionSource::ALL.len();

impl PolicyCounters {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            salt: Fingerprint::new(fastrand::u64(..), fastrand::u64(..)),
            cells: Default::default(),
            early: AtomicU64::new(0),
        }
    }

    /// Adds this many decisions.
    pub(crate) fn count(
        &self,
        slot: usize,
        outcome: MetricOutcome,
        source: DecisionSource,
        times: u64,
    ) {
        let Some(cells) = self.cells.get(slot) else { return };
        let cells = cells.get_or_init(Box::default);
        if let Some(cell) = cells.get(outcome as usize * SOURCES + source as usize) {
            cell.fetch_add(times, Ordering::Relaxed);
        }
    }

    /// Counts a retry before the end of `Retry-After`.
    pub(crate) fn count_early(&self) {
        self.early.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn early(&self) -> u64 {
        self.early.load(Ordering::Relaxed)
    }

    pub(crate) fn of(&self, outcome: MetricOutcome, source: DecisionSource) -> u64 {
        let place = outcome as usize * SOURCES + source as usize;
        let cells = self.cells.iter().filter_map(OnceLock::get);
        cells.filter_map(|cells| cells.get(place)).map(|cell| cell.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn total(&self, outcome: MetricOutcome) -> u64 {
        DecisionSource::ALL.iter().map(|source| self.of(outcome, *source)).sum()
    }

    pub(crate) fn by_source(&self, source: DecisionSource) -> u64 {
        MetricOutcome::ALL.iter().map(|outcome| self.of(*outcome, source)).sum()
    }
}
