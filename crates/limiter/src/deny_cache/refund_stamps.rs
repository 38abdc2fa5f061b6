//! What was given back here, so that no denial from before is believed.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Charge, Timestamp};

/// Counts refunds and resets, apart for each of many groups of counters: a caller that is refunded all
/// the time, as where only failures count, makes nobody else's denial forgotten.
#[derive(Debug)]
pub(super) struct RefundStamps {
    of_all: AtomicU64,
    of_group: Box<[AtomicU64]>,
}

/// A power of two.
const GROUPS: usize = 1_024;

impl RefundStamps {
    pub(super) fn new() -> Self {
        let of_group = (0..GROUPS).map(|_| AtomicU64::new(0)).collect();
        Self { of_all: AtomicU64::new(0), of_group }
    }

    /// How many there were that could matter to these charges. None of them is ever taken back, so
    /// that an equal count means that nothing happened in between.
    pub(super) fn stamp(&self, charges: &[Charge<'_>]) -> u64 {
        let of_all = self.of_all.load(Ordering::Acquire);
        charges
            .iter()
            .map(|charge| self.group(charge).load(Ordering::Acquire))
            .fold(of_all, u64::wrapping_add)
    }

    /// Something was given back to this charge's counter, or its counter was forgotten.
    pub(super) fn record(&self, charge: &Charge<'_>) {
        self.group(charge).fetch_add(1, Ordering::AcqRel);
    }

    /// The same, and by how much that changes the [stamp](Self::stamp) of these charges.
    pub(super) fn record_among(&self, charge: &Charge<'_>, charges: &[Charge<'_>]) -> u64 {
        self.record(charge);
        let place = group(charge);
        charges.iter().map(|other| u64::from(group(other) == place)).sum()
    }

    /// Something was given back somewhere.
    pub(super) fn record_all(&self) {
        self.of_all.fetch_add(1, Ordering::AcqRel);
    }

    fn group(&self, charge: &Charge<'_>) -> &AtomicU64 {
        &self.of_group[group(charge)]
    }
}

fn group(charge: &Charge<'_>) -> usize {
    charge.counter().low() as usize % GROUPS
}

/// When a request came, and what had been given back by then.
///
/// Taken before the store is asked: a denial then never lasts longer here than there, and one that
/// was on its way while something was given back is not believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenyCacheMoment {
    pub(crate) at: Timestamp,
    pub(super) stamp: u64,
}
