//! Counts refunds, so that the deny cache does not repeat denials from before a refund.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Charge, Timestamp};

/// Counts refunds and resets separately for many groups of counters. A caller with frequent refunds (for
/// example because only failures count) does not make the cache forget the denials of others.
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

    /// The number of refunds that can concern these charges. It only grows, so an equal stamp means that
    /// no refund happened in between.
    pub(super) fn stamp(&self, charges: &[Charge<'_>]) -> u64 {
        let of_all = self.of_all.load(Ordering::Acquire);
        charges
            .iter()
            .map(|charge| self.group(charge).load(Ordering::Acquire))
            .fold(of_all, u64::wrapping_add)
    }

    /// Records a refund or reset of this charge's counter.
    pub(super) fn record(&self, charge: &Charge<'_>) {
        self.group(charge).fetch_add(1, Ordering::AcqRel);
    }

    /// [`record`](Self::record) that returns by how much the [stamp](Self::stamp) of `charges` grows.
    pub(super) fn record_among(&self, charge: &Charge<'_>, charges: &[Charge<'_>]) -> u64 {
        self.record(charge);
        let group_of_charge = group(charge);
        charges.iter().map(|other| u64::from(group(other) == group_of_charge)).sum()
    }

    /// Records a refund of an unknown counter.
    #[cfg(feature = "files")]
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

/// When a request arrived, and the refunds until then.
///
/// Taken before the store is asked. So a denial never lasts longer here than in the store, and a denial
/// that was in flight during a refund is not repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenyCacheMoment {
    pub(crate) at: Timestamp,
    pub(super) stamp: u64,
}
