//! The terms on which a limit uses its store: how exact decisions are, and what happens without it.

use std::fmt;
use std::ops::RangeInclusive;

/// What to do if the store does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnStoreError {
    /// An embedded store takes over until the store answers again, with this instance's share of
    /// each limit, starting from the last known state of the store.
    #[default]
    Local,
    /// Everything is allowed.
    Open,
    /// Everything is denied.
    Closed,
}

/// How exact a decision must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precision {
    /// The store makes every decision.
    Exact,
    /// A denial is cached until it ends. Decisions are still exact.
    #[default]
    CachedDeny,
    /// Each node takes some of the quota at a time.
    Leased {
        /// How far all nodes together may overshoot, in thousandths of the limit.
        max_over_permille: u16,
    },
}

impl Precision {
    /// The range of `max_over_permille`.
    pub const MAX_OVER_PERMILLE: RangeInclusive<u16> = 1..=500;
    /// The smallest limit to lease, for each instance: a lease of a smaller one would be all of it.
    pub const MIN_LEASED: u64 = 20;
}

impl OnStoreError {
    /// All variants.
    pub const ALL: &'static [Self] = &[Self::Local, Self::Open, Self::Closed];

    /// The name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for OnStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
