//! Why a decision turned out as it did.

use std::fmt;

/// Why a decision turned out as it did.
///
/// It is for logs, metrics and messages. Whether the request may happen is [`Decision::is_allowed`](super::Decision::is_allowed).
///
/// ```
/// use tidegate::{DecisionReason, Limiter};
///
/// let limiter = Limiter::builder().limit("1/day").build()?;
/// let reasons = [(); 2].map(|()| limiter.check_now("alice").reason());
/// assert_eq!(reasons, [DecisionReason::WithinLimit, DecisionReason::LimitExceeded]);
/// assert_eq!(reasons[1].to_string(), "limit_exceeded");
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecisionReason {
    /// Every limit had room.
    WithinLimit,
    /// A limit has no room now, but will have room later.
    LimitExceeded,
    /// The cost is more than a limit ever holds: waiting does not help.
    CostExceedsLimit,
    /// An earlier denial blocks the caller for a while.
    Blocked,
    /// No enforced limit applied.
    NoPolicy,
    /// The store did not answer, and the policy uses no local fallback.
    StoreUnavailable,
}

impl DecisionReason {
    /// All reasons, in declaration order.
    pub const ALL: &'static [Self] = &[
        Self::WithinLimit,
        Self::LimitExceeded,
        Self::CostExceedsLimit,
        Self::Blocked,
        Self::NoPolicy,
        Self::StoreUnavailable,
    ];

    /// The name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WithinLimit => "within_limit",
            Self::LimitExceeded => "limit_exceeded",
            Self::CostExceedsLimit => "cost_exceeds_limit",
            Self::Blocked => "blocked",
            Self::NoPolicy => "no_policy",
            Self::StoreUnavailable => "store_unavailable",
        }
    }
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
