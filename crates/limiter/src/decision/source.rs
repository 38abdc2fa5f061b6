//! Where a decision comes from.

use std::fmt;

/// Where a decision comes from.
///
/// With a store in this process it is always `Store` or `None`. With a remote store, watch the share of
/// `Fallback`: those are decisions that instances made on their own.
///
/// ```
/// use tidegate::{DecisionSource, Limiter};
///
/// let limiter = Limiter::builder().limit("1/day").build()?;
/// let source = limiter.check_now("alice").source();
/// assert_eq!((source, source.to_string().as_str()), (DecisionSource::Store, "store"));
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecisionSource {
    /// The store.
    Store,
    /// A recent denial by the store, which still holds.
    DenyCache,
    /// Units that were taken from the store in advance.
    Lease,
    /// The local fallback for a store that does not answer.
    Fallback,
    /// Nothing: no limit applied.
    None,
}

impl DecisionSource {
    /// All sources, in declaration order.
    pub const ALL: &'static [Self] =
        &[Self::Store, Self::DenyCache, Self::Lease, Self::Fallback, Self::None];

    /// The name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::DenyCache => "deny_cache",
            Self::Lease => "lease",
            Self::Fallback => "fallback",
            Self::None => "none",
        }
    }
}

impl fmt::Display for DecisionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
