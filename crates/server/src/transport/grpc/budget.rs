//! Bounds the memory that large messages take together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The memory that the large messages of a listener can take together.
///
/// Small messages are always accepted without it, so a few clients with enormous headers cannot block
/// the others.
#[derive(Clone, Debug)]
pub(super) struct MessageBudget(Arc<Semaphore>);

/// A reserved part of the budget, which is released when the permit is dropped.
pub(super) type BudgetPermit = OwnedSemaphorePermit;

impl MessageBudget {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes / UNIT)))
    }

    /// Reserves memory for a message, if enough is free at the moment.
    pub(super) fn try_reserve(&self, bytes: usize) -> Option<BudgetPermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).ok()?;
        Arc::clone(&self.0).try_acquire_many_owned(units).ok()
    }
}

/// The bytes of one semaphore permit: on 32-bit machines a semaphore has fewer than 2^29 permits.
const UNIT: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrowed_bytes_are_returned() {
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
