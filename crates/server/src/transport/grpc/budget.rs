//! Memory for large messages.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How much memory the large messages of a listener may take together.
///
/// Small messages need none of it: a few clients with enormous fields cannot keep others from being
/// answered.
#[derive(Clone, Debug)]
pub(super) struct MessageBudget(Arc<Semaphore>);

/// A part of the budget, until it is dropped.
pub(super) type BudgetPermit = OwnedSemaphorePermit;

impl MessageBudget {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes / UNIT)))
    }

    /// Room for a message, if there is any at the moment.
    pub(super) fn try_reserve(&self, bytes: usize) -> Option<BudgetPermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).ok()?;
        Arc::clone(&self.0).try_acquire_many_owned(units).ok()
    }
}

/// What is lent at a time: a semaphore has no more than 2^29 permits on some machines.
const UNIT: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_borrowed_comes_back() {
        let budget = MessageBudget::new(4 << 10);
        let first = budget.try_reserve(3_000).unwrap();
        assert!(budget.try_reserve(2_000).is_none());
        let second = budget.try_reserve(1_000).unwrap();
        drop(first);
        assert!(budget.try_reserve(3_000).is_some());
        drop(second);
        assert!(budget.try_reserve(5_000).is_none());
        assert!(budget.try_reserve(usize::MAX).is_none());
    }
}
