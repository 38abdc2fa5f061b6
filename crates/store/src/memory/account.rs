//! One charge at one table: what each operation does to a key, and to the space it takes.

use tidegate_core::algorithm::Algorithm;
use tidegate_core::{Charge, Cost, Fingerprint, Timestamp, Verdict};

use super::capacity::{Capacity, Full};
use super::table::Table;
use crate::Verdicts;

/// What an operation needs to know, whatever the algorithm.
#[derive(Clone, Copy)]
pub(super) struct Ticket<'a> {
    pub(super) charge: &'a Charge<'a>,
    pub(super) counter: Fingerprint,
    pub(super) now: Timestamp,
    pub(super) capacity: &'a Capacity,
}

/// A ticket at the table of its algorithm.
pub(super) struct Account<'a, A: Algorithm> {
    pub(super) table: &'a mut Table<A>,
    pub(super) by: &'a A,
    pub(super) ticket: Ticket<'a>,
}

impl<A: Algorithm> Account<'_, A> {
    /// Probes and pays in one go. Says whether it was allowed; the verdict goes to `out`.
    pub(super) fn decide(self, out: &mut Verdicts) -> Result<bool, Full> {
        let Ticket { charge, counter, now, capacity } = self.ticket;
        match self.table.decide(self.by, counter, charge.cost(), now, capacity.heap_budget, out) {
            Some(allowed) => Ok(allowed),
            None => self.decide_new(out),
        }
    }

    fn decide_new(mut self, out: &mut Verdicts) -> Result<bool, Full> {
        let _claim = self.ticket.capacity.claim()?;
        let cost = self.ticket.charge.cost();
        let verdict = self.probe(cost);
        if cost.is_peek() {
            out.push(verdict);
        } else if verdict.allowed {
            out.push(self.commit());
        } else {
            self.deny();
            out.push(verdict);
        }
        Ok(verdict.allowed)
    }

    pub(super) fn probe(&mut self, cost: Cost) -> Verdict {
        self.table.probe(self.by, self.ticket.counter, cost, self.ticket.now)
    }

    /// Takes the cost. Whoever brings a new key holds a claim for it.
    pub(super) fn commit(self) -> Verdict {
        let Ticket { charge, counter, now, capacity } = self.ticket;
        self.sized(|table, by| table.commit(by, counter, charge.cost(), now, capacity.heap_budget))
    }

    /// A denial. A new key leaves nothing behind, unless its algorithm counts denials.
    pub(super) fn deny(self) {
        let Ticket { charge, counter, now, .. } = self.ticket;
        let mut fresh = A::State::default();
        self.by.deny(&mut fresh, charge.cost(), now);
        if fresh != A::State::default() || self.table.contains(counter) {
            self.sized(|table, by| table.deny(by, counter, charge.cost(), now));
        }
    }

    pub(super) fn refund(self) {
        let Ticket { charge, counter, now, .. } = self.ticket;
        self.table.refund(self.by, counter, charge.cost(), now);
    }

    pub(super) fn reset(self) {
        let counter = self.ticket.counter;
        self.sized(|table, _| table.remove(counter));
    }

    /// Runs what may add keys or drop them, and keeps count.
    fn sized<T>(self, change: impl FnOnce(&mut Table<A>, &A) -> T) -> T {
        let before = self.table.len();
        let result = change(self.table, self.by);
        self.ticket.capacity.resized(before, self.table.len());
        result
    }
}
