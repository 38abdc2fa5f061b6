//! A store under test, with control over its clock.

use tidegate_core::{Charge, Cost, Span, Timestamp, Verdict};
use tidegate_store::{Clock, LocalStore, ManualClock, MemoryStore, Store, Verdicts};

/// What the suite needs from a store. Blocking: an asynchronous store brings its own runtime.
pub trait Subject: Sync {
    /// Moves the store's clock.
    fn set_now(&self, now: Timestamp);

    /// `Store::settle`.
    fn settle(&self, charges: &[Charge<'_>]) -> (bool, Verdicts);

    /// `Store::refund`.
    fn refund(&self, charge: &Charge<'_>);

    /// `Store::reset`.
    fn reset(&self, charge: &Charge<'_>);

    /// How long the counter will be kept; `None` if there is none.
    fn time_to_live(&self, charge: &Charge<'_>) -> Option<Span>;

    /// How many of this many cases to try: a remote store is too slow to try all of them in a test.
    fn share_of(&self, cases: u32) -> u32 {
        cases
    }

    /// One charge, one verdict.
    fn check(&self, charge: &Charge<'_>) -> Verdict {
        self.settle(&[*charge]).1[0]
    }

    /// The same charge several times, in turn; or together, if the store can decide them together.
    fn crowd(&self, charge: &Charge<'_>, size: usize) -> Vec<Verdict> {
        self.each(&vec![*charge; size])
    }

    /// Each charge as a request of its own, in turn; or together, if the store can.
    fn each(&self, charges: &[Charge<'_>]) -> Vec<Verdict> {
        charges.iter().map(|charge| self.check(charge)).collect()
    }

    /// The verdict of a peek.
    fn peek(&self, charge: &Charge<'_>) -> Verdict {
        self.check(&Charge::new(charge.subject(), Cost::PEEK, charge.rule()))
    }
}

/// A store in this process.
#[derive(Debug)]
pub struct LocalSubject<S> {
    store: S,
    clock: ManualClock,
}

impl<S: LocalStore> LocalSubject<S> {
    /// A store and the clock that it reads.
    pub const fn new(store: S, clock: ManualClock) -> Self {
        Self { store, clock }
    }
}

impl<C: Clock> Subject for LocalSubject<MemoryStore<C>> {
    fn set_now(&self, now: Timestamp) {
        self.clock.set(now);
    }

    fn settle(&self, charges: &[Charge<'_>]) -> (bool, Verdicts) {
        let mut verdicts = Verdicts::new();
        let passes = self.store.settle_now(charges, &mut verdicts);
        (passes, verdicts)
    }

    fn each(&self, charges: &[Charge<'_>]) -> Vec<Verdict> {
        let mut told = Vec::new();
        let is_done = self.store.settle_each(charges.iter().copied(), |charge, verdict| {
            assert_eq!(charge.counter(), charges[told.len()].counter());
            told.push(*verdict);
        });
        assert!(is_done);
        told
    }

    fn refund(&self, charge: &Charge<'_>) {
        self.store.refund_now(charge);
    }

    fn reset(&self, charge: &Charge<'_>) {
        self.store.reset_now(charge);
    }

    fn time_to_live(&self, charge: &Charge<'_>) -> Option<Span> {
        self.store.time_to_live(charge)
    }
}
