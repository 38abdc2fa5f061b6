//! One charge, at the table of its algorithm.

use tidegate_core::algorithm::Algorithm;
use tidegate_core::{Charge, Cost, Fingerprint, Timestamp, Verdict};

use super::table::{StateTable, TableUpkeep};
use crate::Verdicts;

/// What an operation needs to know, whatever the algorithm.
#[derive(Clone, Copy)]
pub(super) struct ChargeContext<'a> {
    pub(super) charge: &'a Charge<'a>,
    /// The key under which the counter is kept.
    pub(super) key: Fingerprint,
    /// The charge's own time: the clock's, or ahead of it if windows are staggered.
    pub(super) now: Timestamp,
    pub(super) upkeep: TableUpkeep<'a>,
}

/// A ticket at the table of its algorithm.
pub(super) struct TableAccount<'a, A: Algorithm> {
    pub(super) table: &'a mut StateTable<A>,
    pub(super) by: &'a A,
    pub(super) ticket: ChargeContext<'a>,
}

impl<A: Algorithm> TableAccount<'_, A> {
    /// Decides for a key that is here or has room. Returns whether it was allowed; the verdict goes
    /// to `out`.
    pub(super) fn apply(self, out: &mut Verdicts) -> bool {
        let cost = self.ticket.charge.cost();
        let verdict = self.probe(cost);
        if cost.is_peek() {
            out.push(verdict);
        } else if verdict.allowed {
            out.push(self.commit(cost));
        } else {
            out.push(self.record_denial(verdict));
        }
        verdict.allowed
    }

    /// Records a denial. Returns what is told of it: less is left if it was counted.
    fn record_denial(self, verdict: Verdict) -> Verdict {
        let ChargeContext { charge, key, now, upkeep } = self.ticket;
        self.table.deny(self.by, key, charge.cost(), now, upkeep);
        if !self.by.counts_denied() {
            return verdict;
        }
        let left = self.table.probe(self.by, key, Cost::PEEK, now);
        Verdict { remaining: left.remaining, ..verdict }
    }

    /// Whether the key has a slot that no sweep will take away. A key without one needs a claim.
    pub(super) fn has_live_slot(&self) -> bool {
        let forget_at = self.table.forget_at(self.ticket.key);
        forget_at.is_some_and(|at| at > self.ticket.upkeep.time)
    }

    pub(super) fn probe(&self, cost: Cost) -> Verdict {
        self.table.probe(self.by, self.ticket.key, cost, self.ticket.now)
    }

    pub(super) fn commit(self, cost: Cost) -> Verdict {
        let ChargeContext { key, now, upkeep, .. } = self.ticket;
        self.table.commit(self.by, key, cost, now, upkeep)
    }

    pub(super) fn deny(self) {
        let ChargeContext { charge, key, now, upkeep } = self.ticket;
        self.table.deny(self.by, key, charge.cost(), now, upkeep);
    }

    pub(super) fn refund(self) {
        let ChargeContext { charge, key, now, upkeep } = self.ticket;
        self.table.refund(self.by, key, charge.cost(), now, upkeep);
    }

    pub(super) fn reset(self) {
        self.table.remove(self.ticket.key, self.ticket.upkeep.capacity);
    }
}
