//! What was taken of one limit by one key.

use tidegate_core::{Charge, Limit, Span, Timestamp, Verdict};

#[derive(Debug)]
pub(super) struct Lease {
    id: u64,
    limit: Limit,
    left: u64,
    /// Until when what is left may be spent.
    until: Timestamp,
    /// What the store had left beside it, and when it would have been full again.
    remaining: u64,
    reset_after: Span,
    /// When it was asked for that.
    at: Timestamp,
    /// Somebody is asking for more.
    is_growing: bool,
    grows_from: Timestamp,
}

/// For how long a key is remembered, even where its quota is full again sooner.
const MEMORY: Span = Span::from_secs(1);
/// How long nobody takes ahead after an answer that did not come: whatever it was is lost.
const PAUSE: Span = Span::from_secs(1);

impl Lease {
    /// Of a key that was seen for the first time.
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

    /// Whether nothing is lost without it.
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

    /// Half of what is left, if more may be asked for: the less there is, the less is taken.
    pub(super) fn growth(&self, now: Timestamp) -> Option<u64> {
        let may_grow = !self.is_growing && now >= self.grows_from;
        may_grow.then(|| self.remaining.div_ceil(2))
    }

    /// Somebody takes all of it to the store, and maybe asks for more.
    pub(super) const fn lend(&mut self, grows: bool) {
        self.left = 0;
        self.is_growing |= grows;
    }

    pub(super) const fn until(&self) -> Timestamp {
        self.until
    }

    /// What was lent comes back, unless something else has come that lasts longer or ends sooner.
    pub(super) fn give_back(&mut self, held: u64, until: Timestamp) {
        if self.until == until {
            self.left = self.left.saturating_add(held);
        }
    }

    /// Nobody asks for more any longer. `answered` is whether it is known what came of it.
    pub(super) fn end_growth(&mut self, asked: Timestamp, answered: bool) {
        self.is_growing = false;
        if !answered {
            self.grows_from = asked + PAUSE;
        }
    }

    /// What the store has left.
    pub(super) fn record_verdict(&mut self, verdict: &Verdict, asked: Timestamp) {
        if asked >= self.at {
            (self.remaining, self.reset_after) = (verdict.remaining, verdict.reset_after);
            self.at = asked;
        }
    }

    /// More, which the store was asked for at one time and has given by another.
    pub(super) fn receive(
        &mut self,
        more: u64,
        verdict: &Verdict,
        asked: Timestamp,
        landed: Timestamp,
    ) {
        let until = asked + verdict.reset_after.min(self.limit.quota().window());
        if landed >= until {
            // It was for a window that is over.
            return;
        }
        // What was here before ends when it would have.
        let before = self.left_at(landed);
        self.until = if before > 0 { self.until.min(until) } else { until };
        self.left = before.saturating_add(more);
        self.record_verdict(verdict, asked);
    }
}
