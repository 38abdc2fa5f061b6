//! The cost of a request: the units that it takes from a quota.

use std::fmt;

/// The largest limit, burst or cost: 10^15, so that sums of a few of them stay below 2^53 and
/// Lua numbers hold every intermediate value exactly.
pub const MAX_COUNT: u64 = 1_000_000_000_000_000;

/// The units that one request takes. A cost of zero is a peek: it reads and changes nothing.
///
/// ```
/// use tidegate::Cost;
///
/// assert_eq!(Cost::new(5)?.get(), 5);
/// assert!(Cost::PEEK.is_peek());
/// assert!(Cost::new(u64::MAX).is_err());
/// # Ok::<(), tidegate::CostTooLarge>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u64);

impl Cost {
    /// The cost of an ordinary request.
    pub const ONE: Self = Self(1);
    /// A peek: looks without taking anything.
    pub const PEEK: Self = Self(0);

    /// Refuses more than [`MAX_COUNT`].
    ///
    /// # Errors
    ///
    /// [`CostTooLarge`], with the value. A cost above the largest limit could never pass.
    pub const fn new(units: u64) -> Result<Self, CostTooLarge> {
        if units > MAX_COUNT { Err(CostTooLarge(units)) } else { Ok(Self(units)) }
    }

    /// The number of units.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether nothing is taken.
    pub const fn is_peek(self) -> bool {
        self.0 == 0
    }

    /// The sum of both. A sum past [`MAX_COUNT`] is capped just above it, so that it fits no limit.
    ///
    /// ```
    /// use tidegate_core::{Cost, MAX_COUNT};
    ///
    /// let most = Cost::new(MAX_COUNT)?;
    /// assert!(most.plus(most).get() > MAX_COUNT); // and nothing overflows
    /// # Ok::<(), tidegate_core::CostTooLarge>(())
    /// ```
    pub const fn plus(self, other: Self) -> Self {
        let sum = self.0.saturating_add(other.0);
        if sum > MAX_COUNT { Self(MAX_COUNT + 1) } else { Self(sum) }
    }
}

/// A cost of this many units: a number of this size always fits.
///
/// ```
/// use tidegate::{Cost, Limiter};
///
/// let limiter = Limiter::builder().limit("10/minute").build()?;
/// assert!(limiter.check_n_now("alice", 5).is_allowed());
/// assert_eq!(Cost::from(5).get(), 5);
/// # Ok::<(), tidegate::BuildError>(())
/// ```
impl From<u32> for Cost {
    fn from(units: u32) -> Self {
        Self(u64::from(units))
    }
}

/// The same as [`Cost::new`].
impl TryFrom<u64> for Cost {
    type Error = CostTooLarge;

    fn try_from(units: u64) -> Result<Self, CostTooLarge> {
        Self::new(units)
    }
}

/// A cost that no limit could ever admit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostTooLarge(
    /// The refused value.
    pub u64,
);

impl fmt::Display for CostTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a cost of {} is too large: expected 0 to {MAX_COUNT}", self.0)
    }
}

impl std::error::Error for CostTooLarge {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capped_sum_exceeds_every_limit() {
        let most = Cost::new(MAX_COUNT).unwrap();
        assert_eq!(most.plus(most).get(), MAX_COUNT + 1);
        assert_eq!(Cost::ONE.plus(Cost::ONE).get(), 2);
    }

    #[test]
    fn the_error_names_the_value_and_the_range() {
        let error = Cost::new(MAX_COUNT + 1).unwrap_err().to_string();
        assert!(error.contains("1000000000000001") && error.contains("0 to 1000000000000000"));
    }
}
