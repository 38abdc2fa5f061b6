//! How often each policy decided what.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;
use tidegate::{Charge, Decision, DecisionSource, Fingerprint, RequestCharges, Verdict};

use super::slot::SLOTS;

/// What a policy decided about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricOutcome {
    /// Its limits had room.
    Allowed,
    /// One limit had no room.
    Denied,
    /// A limit that is only observed had no room.
    ShadowDenied,
    /// It was only a peek.
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

    /// What the limit of one charge decided, if it was the only one.
    pub(crate) const fn of_one(charge: &Charge<'_>, verdict: &Verdict) -> Self {
        match (verdict.allowed, charge.rule().enforced) {
            _ if charge.cost().is_peek() => Self::Peeked,
            (true, _) => Self::Allowed,
            (false, true) => Self::Denied,
            (false, false) => Self::ShadowDenied,
        }
    }

    /// What the policy of these charges decided, whatever others decided about the same request.
    pub(crate) fn of(
        owed: &RequestCharges<'_>,
        decision: &Decision,
        charges: Range<usize>,
    ) -> Self {
        let mut outcome = Self::Allowed;
        for index in charges {
            let Some(charge) = owed.charges().get(index) else { continue };
            if charge.cost().is_peek() {
                return Self::Peeked;
            }
            // Without verdicts nobody was asked, and the limits that count are the ones that deny.
            let unasked = decision.is_allowed() || !decision.counts(index);
            let verdict = decision.verdicts().get(index);
            match charge.rule().enforced {
                _ if verdict.map_or(unasked, |verdict| verdict.allowed) => {}
                true => return Self::Denied,
                false => outcome = Self::ShadowDenied,
            }
        }
        outcome
    }
}

/// The counters of one policy. A policy that nobody asks takes next to no memory.
#[derive(Debug)]
pub(crate) struct PolicyCounters {
    pub(crate) name: Arc<str>,
    /// Distinguishes this policy's keys from the same keys of others.
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

    /// A client came back before the time it was told.
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
