//! The verdict of one limit on one request.

use crate::Span;

/// The answer of one limit, in numbers a caller can act on.
///
/// ```
/// use tidegate::{Cost, Limit, Timestamp};
///
/// let limit: Limit = "2/minute".parse()?;
/// let verdict = limit.probe_fresh(Cost::ONE, Timestamp::from_secs(7));
/// assert!(verdict.allowed);
/// assert_eq!((verdict.limit, verdict.remaining), (2, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Verdict {
    /// Whether the request fits.
    pub allowed: bool,
    /// What a full quota holds (for a token bucket, its burst); `remaining` counts down from it.
    pub limit: u64,
    /// The largest cost that would pass now. After a commit, what the request left over.
    pub remaining: u64,
    /// When the same request would pass if no other request came first. `None` if it passed, and if it
    /// can never pass because its cost exceeds the limit.
    pub retry_after: Option<Span>,
    /// When the quota is full again if no other request comes.
    pub reset_after: Span,
}

impl Verdict {
    /// Denied, and waiting would not help: the cost is more than the limit ever holds.
    ///
    /// Clients should not retry such a request. The HTTP answer to it has no `Retry-After`.
    ///
    /// ```
    /// use tidegate_core::{Cost, Limit, Timestamp};
    ///
    /// let limit: Limit = "2/minute".parse()?;
    /// let verdict = limit.probe_fresh(Cost::new(3)?, Timestamp::ZERO);
    /// assert!(verdict.is_hopeless());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn is_hopeless(&self) -> bool {
        !self.allowed && self.retry_after.is_none()
    }

    /// Whether this verdict tells the caller more than `other` does: of two denials, the one with
    /// the later `retry_after` (never is latest); of two admissions, the one with the smaller share
    /// remaining.
    pub fn is_tighter_than(&self, other: &Self) -> bool {
        match (self.allowed, other.allowed) {
            (false, true) => true,
            (true, false) => false,
            (false, false) => later(self.retry_after, other.retry_after),
            // remaining/limit compared by cross-multiplication: no rounding, no division by zero.
            (true, true) => {
                u128::from(self.remaining) * u128::from(other.limit)
                    < u128::from(other.remaining) * u128::from(self.limit)
            }
        }
    }
}

fn later(mine: Option<Span>, theirs: Option<Span>) -> bool {
    match (mine, theirs) {
        (None, Some(_)) => true,
        (_, None) => false,
        (Some(mine), Some(theirs)) => mine > theirs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(allowed: bool, limit: u64, remaining: u64, retry: Option<u64>) -> Verdict {
        Verdict {
            allowed,
            limit,
            remaining,
            retry_after: retry.map(Span::from_secs),
            reset_after: Span::ZERO,
        }
    }

    #[test]
    fn the_tightest_is_the_latest_denial_else_the_smallest_share() {
        let half = verdict(true, 10, 5, None);
        let tenth = verdict(true, 1_000, 100, None);
        let soon = verdict(false, 10, 0, Some(1));
        let late = verdict(false, 10, 0, Some(9));
        let never = verdict(false, 10, 10, None);
        let from_loosest = [half, tenth, soon, late, never];
        for (rank, tighter) in from_loosest.iter().enumerate() {
            for looser in &from_loosest[..rank] {
                assert!(tighter.is_tighter_than(looser), "{tighter:?} {looser:?}");
                assert!(!looser.is_tighter_than(tighter), "{looser:?} {tighter:?}");
            }
        }
        assert!(never.is_hopeless() && !late.is_hopeless() && !half.is_hopeless());
    }
}
