//! One charge with the table that holds its counter, and what a shard does to that counter.

use tidegate_core::algorithm::Algorithm;
use tidegate_core::{Charge, Cost, Fingerprint, Timestamp, Verdict};

use super::table::{StateTable, TableUpkeep};
use crate::Verdicts;

/// Everything that an operation on a charge needs, except the table and the algorithm.
#[derive(Clone, Copy)]
pub(super) struct ChargeContext<'a> {
    pub(super) charge: &'a Charge<'a>,
    /// The key of the charge's counter in the table. In overflow, the key of a cell, a counter that
    /// several keys share.
    pub(super) key: Fingerprint,
    /// The charge's own time: the clock's, or ahead of it if the rule is staggered. The clock's own
    /// time is in `upkeep`.
    pub(super) now: Timestamp,
    pub(super) upkeep: TableUpkeep<'a>,
}

/// A charge with its algorithm and that algorithm's table. Exists for one operation.
pub(super) struct TableAccount<'a, A: Algorithm> {
    pub(super) table: &'a mut StateTable<A>,
    pub(super) by: &'a A,
    pub(super) context: ChargeContext<'a>,
}

impl<A: Algorithm> TableAccount<'_, A> {
    /// Settles a charge on its own: probes it, and then commits it or records the denial. The key
    /// must be in the table or have a claim to a slot. Returns whether the charge was allowed; the
    /// verdict goes to `out`.
    pub(super) fn apply(self, out: &mut Verdicts) -> bool {
        let cost = self.context.charge.cost();
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

    /// Records a denial. Returns its verdict: less remains if the denial was counted.
    fn record_denial(self, verdict: Verdict) -> Verdict {
        let ChargeContext { charge, key, now, upkeep } = self.context;
        self.table.deny(self.by, key, charge.cost(), now, upkeep);
        if !self.by.counts_denied() {
            return verdict;
        }
        let left = self.table.probe(self.by, key, Cost::PEEK, now);
        Verdict { remaining: left.remaining, ..verdict }
    }

    /// Whether the key is in the table with a state that is not dead. Any other key needs a claim
    /// to a slot: a sweep may remove a dead key at any time.
    pub(super) fn has_live_slot(&self) -> bool {
        let forget_at = self.table.forget_at(self.context.key);
        forget_at.is_some_and(|at| at > self.context.upkeep.time)
    }

    pub(super) fn probe(&self, cost: Cost) -> Verdict {
        self.table.probe(self.by, self.context.key, cost, self.context.now)
    }

    pub(super) fn commit(self, cost: Cost) -> Verdict {
        let ChargeContext { key, now, upkeep, .. } = self.context;
        self.table.commit(self.by, key, cost, now, upkeep)
    }

    pub(super) fn deny(self) {
        let ChargeContext { charge, key, now, upkeep } = self.context;
        self.table.deny(self.by, key, charge.cost(), now, upkeep);
    }

    pub(super) fn refund(self) {
        let ChargeContext { charge, key, now, upkeep } = self.context;
        self.table.refund(self.by, key, charge.cost(), now, upkeep);
    }

    pub(super) fn reset(self) {
        self.table.remove(self.context.key, self.context.upkeep.capacity);
    }
}
