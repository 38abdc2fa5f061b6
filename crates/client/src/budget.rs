//! How many retries there may be, all in all.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bounds how much retries add to the load of a server that is in trouble.
///
/// Every call that is sent puts a share of a retry into the budget, every retry takes a whole one out.
/// When it is empty, refusals are passed on. A retry that was invited, by a 429 that says when to come back,
/// costs nothing: the server has room for it then. `Retry-After: 0` says nothing of the kind.
///
/// ```
/// use tidegate::client::{RetryBudget, PoliteLayer};
///
/// // At most one retry for ten calls, and five to begin with.
/// let layer = PoliteLayer::new().budget(RetryBudget::new(10, 5));
/// ```
#[derive(Debug)]
pub struct RetryBudget {
    /// In hundredths of a retry.
    balance: AtomicU64,
    percent: u64,
    most: u64,
}

impl RetryBudget {
    /// `percent` retries for a hundred calls; at most `reserve` are saved up, and are there to begin
    /// with.
    pub fn new(percent: u32, reserve: u32) -> Self {
        let most = u64::from(reserve) * RETRY;
        Self { balance: AtomicU64::new(most), percent: percent.into(), most }
    }

    /// For a call that was sent.
    pub(crate) fn deposit(&self) {
        self.add(self.percent);
    }

    /// For a retry that was paid for and not made.
    pub(crate) fn give_back(&self) {
        self.add(RETRY);
    }

    fn add(&self, amount: u64) {
        let _ = self.balance.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |balance| {
            Some(balance.saturating_add(amount).min(self.most))
        });
    }

    pub(crate) fn withdraw(&self) -> bool {
        let taken = self.balance.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |balance| {
            balance.checked_sub(RETRY)
        });
        taken.is_ok()
    }
}

/// One retry for five calls, and ten to begin with.
impl Default for RetryBudget {
    fn default() -> Self {
        Self::new(20, 10)
    }
}

const RETRY: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_earned_by_calls() {
        let budget = RetryBudget::new(50, 2);
        assert!(budget.withdraw() && budget.withdraw() && !budget.withdraw());
        budget.deposit();
        assert!(!budget.withdraw());
        budget.deposit();
        assert!(budget.withdraw() && !budget.withdraw());
        budget.give_back();
        assert!(budget.withdraw() && !budget.withdraw());
        for _ in 0..100 {
            budget.deposit();
        }
        assert!(budget.withdraw() && budget.withdraw() && !budget.withdraw());
    }
}
