//! An exact count of the requests in the window that ends now.

use std::collections::VecDeque;

use tidegate::{Span, Timestamp};

/// Counts the requests in the window that ends now exactly, whatever an algorithm estimates.
///
/// ```
/// use tidegate::{Span, Timestamp};
/// use tidegate_sim::RollingCount;
///
/// let mut trailing = RollingCount::new(Span::from_secs(60));
/// trailing.add(Timestamp::from_secs(59));
/// assert_eq!(trailing.count(Timestamp::from_secs(118)), 1);
/// assert_eq!(trailing.count(Timestamp::from_secs(119)), 0);
/// ```
#[derive(Clone, Debug)]
pub struct RollingCount {
    window: Span,
    times: VecDeque<Timestamp>,
}

impl RollingCount {
    /// An empty count over a window of this length.
    pub const fn new(window: Span) -> Self {
        Self { window, times: VecDeque::new() }
    }

    /// Records a request. Times must come in order.
    #[inline]
    pub fn add(&mut self, at: Timestamp) {
        self.times.push_back(at);
    }

    /// The number of requests in the window that ends now.
    #[inline]
    pub fn count(&mut self, now: Timestamp) -> u64 {
        while self.times.front().is_some_and(|at| *at + self.window <= now) {
            self.times.pop_front();
        }
        self.times.len() as u64
    }

    /// Removes everything but keeps the allocated memory.
    pub(crate) fn clear(&mut self) {
        self.times.clear();
    }
}
