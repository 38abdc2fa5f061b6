//! The budget that bounds all retries of a client together.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bounds how much retries add to the load of an overloaded server.
///
/// Every call that is sent deposits a share of a retry, and every retry withdraws a whole one. When the
/// budget is empty, refusals are passed on. A retry after a 429 with `Retry-After` costs nothing: the
/// server has room for it at that time. `Retry-After: 0` does not count as such.
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
    /// `percent` retries for a hundred calls; at most `reserve` retries are saved up, which is also the
    /// initial balance.
    ///
    /// With a reserve of zero, there are never any uninvited retries: nothing can be saved up for them.
    pub fn new(percent: u32, reserve: u32) -> Self {
        let most = u64::from(reserve) * RETRY;
        Self { balance: AtomicU64::new(most), percent: percent.into(), most }
    }

    /// Deposits the share of a call that was sent.
    pub(crate) fn deposit(&self) {
        self.add(self.percent);
    }

    /// Returns a retry that was paid for and not made.
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
