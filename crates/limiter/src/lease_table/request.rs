//! What is under way to the store, for a key with a lease.

use tidegate_core::{Cost, Fingerprint, Timestamp, Verdict};

use super::LeaseTable;
use super::lease::Lease;

/// A request that the store is asked about, for less than it costs or for more.
///
/// Whatever becomes of it, what was left here comes back unless it was spent, and others may ask
/// for more again. Where no answer came, what the store has counted is lost.
#[derive(Debug)]
pub(crate) struct LeaseRequest<'l> {
    pub(super) leases: &'l LeaseTable,
    pub(super) counter: Fingerprint,
    pub(super) id: u64,
    /// What was left here, and until when.
    pub(super) held: (u64, Timestamp),
    /// What the request costs besides.
    pub(super) needed: u64,
    /// How much to ask for instead.
    pub(super) ahead: Option<u64>,
    /// Whether it asked for that, and keeps others from it.
    pub(super) grows: bool,
    pub(super) asked: Timestamp,
    pub(super) is_answered: bool,
}

impl LeaseRequest<'_> {
    /// How much to ask the store for.
    pub(crate) fn amount(&self) -> Cost {
        // Never more than a limit holds, and that is a cost.
        Cost::new(self.ahead.unwrap_or(self.needed)).unwrap_or(Cost::ONE)
    }

    /// The store has not so much: only what is needed, unless that was all.
    pub(crate) fn ask_for_less(&mut self) -> Option<Cost> {
        self.ahead.take()?;
        Some(self.amount())
    }

    /// The store has given it, by now.
    pub(crate) fn record_paid(mut self, verdict: &Verdict, now: Timestamp) {
        let more = self.ahead.map_or(0, |ahead| ahead.saturating_sub(self.needed));
        let asked = self.asked;
        (self.held.0, self.is_answered) = (0, true);
        self.with_lease(|lease| lease.receive(more, verdict, asked, now));
    }

    /// The store has not even what is needed.
    pub(crate) fn record_denied(mut self, verdict: &Verdict) {
        self.is_answered = true;
        let asked = self.asked;
        self.with_lease(|lease| lease.record_verdict(verdict, asked));
    }

    /// Not where another has taken its place meanwhile: what was counted for the one is nothing to
    /// the other.
    fn with_lease(&self, change: impl FnOnce(&mut Lease)) {
        let mut shard = self.leases.shard(self.counter).lock();
        if let Some(lease) = shard.get_mut(&self.counter).filter(|lease| lease.id() == self.id) {
            change(lease);
        }
    }
}

impl Drop for LeaseRequest<'_> {
    fn drop(&mut self) {
        let Self { held: (held, until), grows, asked, is_answered, .. } = *self;
        self.with_lease(|lease| {
            lease.give_back(held, until);
            if grows {
                lease.end_growth(asked, is_answered);
            }
        });
    }
}
