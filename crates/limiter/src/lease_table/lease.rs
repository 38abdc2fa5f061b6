//! The lease on one counter: the units that are left, and what the store last reported.

use tidegate_core::{Charge, Limit, Span, Timestamp, Verdict};

/// Units of one counter that were taken in advance.
#[derive(Debug)]
pub(super) struct Lease {
    id: u64,
    limit: Limit,
    left: u64,
    /// When the unspent units expire.
    until: Timestamp,
    /// What remained in the store besides, and the time until it would have been full again.
    remaining: u64,
    reset_after: Span,
    /// When the store was asked for these two.
    at: Timestamp,
    /// Whether a request for more is in flight.
    is_growing: bool,
    grows_from: Timestamp,
}

/// How long a key is remembered, even if its quota is full again sooner.
const MEMORY: Span = Span::from_secs(1);
/// How long no units are taken in advance after a request without an answer: the units it took are lost.
const PAUSE: Span = Span::from_secs(1);

impl Lease {
    /// An empty lease, for the first request of a key.
    pub(super) const fn new(id: u64, limit: Limit, verdict: &Verdict, at: Timestamp) -> Self {
        let Verdict { remaining, reset_after, .. } = *verdict;
        Self {
            id,
            limit,
            left: 0,
            until: at,
            remaining,
            reset_after,
            at,
            is_growing: false,
            grows_from: at,
        }
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn is_of(&self, charge: &Charge<'_>) -> bool {
        self.limit == charge.rule().limit
    }

    pub(super) fn is_known_at(&self, now: Timestamp) -> bool {
        now < self.until
            || now < self.at + self.reset_after.min(self.limit.quota().window()).max(MEMORY)
    }

    /// Whether the lease can be evicted without losing units.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        self.left_at(now) == 0 && !self.is_growing
    }

    pub(super) fn left_at(&self, now: Timestamp) -> u64 {
        if now < self.until { self.left } else { 0 }
    }

    pub(super) fn spend(&mut self, cost: u64, now: Timestamp) -> Verdict {
        self.left = self.left.saturating_sub(cost);
        let limit = self.limit.capacity();
        Verdict {
            allowed: true,
            limit,
            remaining: self.remaining.saturating_add(self.left).min(limit),
            retry_after: None,
            reset_after: self.reset_after.minus(now.since(self.at)),
        }
    }

    /// Half of what remains in the store, if more can be requested now: the less remains, the less is taken.
    pub(super) fn growth(&self, now: Timestamp) -> Option<u64> {
        let may_grow = !self.is_growing && now >= self.grows_from;
        may_grow.then(|| self.remaining.div_ceil(2))
    }

    /// Moves all units into a request to the store, which asks for more if `grows`.
    pub(super) const fn lend(&mut self, grows: bool) {
        self.left = 0;
        self.is_growing |= grows;
    }

    pub(super) const fn until(&self) -> Timestamp {
        self.until
    }

    /// Returns the lent units, unless the lease was replaced by one with another expiry meanwhile.
    pub(super) fn give_back(&mut self, held: u64, until: Timestamp) {
        if self.until == until {
            self.left = self.left.saturating_add(held);
        }
    }

    /// Ends a request for more. `answered` is whether the store answered it.
    pub(super) fn end_growth(&mut self, asked_at: Timestamp, answered: bool) {
        self.is_growing = false;
        if !answered {
            self.grows_from = asked_at + PAUSE;
        }
    }

    /// Records what remains in the store.
    pub(super) fn record_verdict(&mut self, verdict: &Verdict, asked_at: Timestamp) {
        if asked_at >= self.at {
            (self.remaining, self.reset_after) = (verdict.remaining, verdict.reset_after);
            self.at = asked_at;
        }
    }

    /// Adds `more` units, which were requested at `asked_at` and arrived at `arrived`.
    pub(super) fn receive(
        &mut self,
        more: u64,
        verdict: &Verdict,
        asked_at: Timestamp,
        arrived: Timestamp,
    ) {
        let until = asked_at + verdict.reset_after.min(self.limit.quota().window());
        if arrived >= until {
            // The units were for a window that has ended.
            return;
        }
        // The old units keep their expiry, and the new ones share it.
        let before = self.left_at(arrived);
        self.until = if before > 0 { self.until.min(until) } else { until };
        self.left = before.saturating_add(more);
        self.record_verdict(verdict, asked_at);
    }
}
