//! A request to the store for a key with a lease.

use tidegate_core::{Cost, Fingerprint, Timestamp, Verdict};

use super::LeaseTable;
use super::lease::Lease;

/// A request to the store for less than a charge's cost or for more.
///
/// However it ends, the unspent units return to the lease, and other requests can ask for more again. If
/// no answer comes, the units that the store counted are lost.
#[derive(Debug)]
pub(crate) struct LeaseRequest<'l> {
    pub(super) leases: &'l LeaseTable,
    pub(super) counter: Fingerprint,
    pub(super) id: u64,
    /// The units that were left in the lease, and their expiry.
    pub(super) held: (u64, Timestamp),
    /// The part of the cost that the lease does not cover.
    pub(super) needed: u64,
    /// How much to ask for instead, to fill the lease.
    pub(super) ahead: Option<u64>,
    /// Whether it began by asking for more, which keeps other requests from doing so.
    pub(super) grows: bool,
    pub(super) asked_at: Timestamp,
    pub(super) is_answered: bool,
}

impl LeaseRequest<'_> {
    /// How much to ask the store for.
    pub(crate) fn amount(&self) -> Cost {
        // At most a limit's capacity, which is always a valid cost.
        Cost::new(self.ahead.unwrap_or(self.needed)).unwrap_or(Cost::ONE)
    }

    /// The store has too little left: asks only for what is needed. `None` if that was already the case.
    pub(crate) fn ask_for_less(&mut self) -> Option<Cost> {
        self.ahead.take()?;
        Some(self.amount())
    }

    /// Records that the store granted the request, by an answer that arrived at `now`.
    pub(crate) fn record_paid(mut self, verdict: &Verdict, now: Timestamp) {
        let more = self.ahead.map_or(0, |ahead| ahead.saturating_sub(self.needed));
        let asked_at = self.asked_at;
        (self.held.0, self.is_answered) = (0, true);
        self.with_lease(|lease| lease.receive(more, verdict, asked_at, now));
    }

    /// Records that the store denied even what is needed.
    pub(crate) fn record_denied(mut self, verdict: &Verdict) {
        self.is_answered = true;
        let asked_at = self.asked_at;
        self.with_lease(|lease| lease.record_verdict(verdict, asked_at));
    }

    /// Changes the lease, unless another lease has replaced it: the units were taken for the old one.
    fn with_lease(&self, change: impl FnOnce(&mut Lease)) {
        let mut shard = self.leases.shard(self.counter).lock();
        if let Some(lease) = shard.get_mut(&self.counter).filter(|lease| lease.id() == self.id) {
            change(lease);
        }
    }
}

impl Drop for LeaseRequest<'_> {
    fn drop(&mut self) {
        let Self { held: (held, until), grows, asked_at, is_answered, .. } = *self;
        self.with_lease(|lease| {
            lease.give_back(held, until);
            if grows {
                lease.end_growth(asked_at, is_answered);
            }
        });
    }
}
