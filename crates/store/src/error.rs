//! Why a store could not settle.

use std::fmt;

/// A store that did not answer, or not in time. Never an outcome: a denial is a verdict.
///
/// ```
/// use tidegate_store::{StoreError, StoreErrorKind};
///
/// let error = StoreError::new(StoreErrorKind::Timeout, "no answer within 10ms");
/// assert_eq!(error.kind(), StoreErrorKind::Timeout);
/// assert_eq!(error.to_string(), "store timed out: no answer within 10ms");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("store {kind}: {message}")]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
}

impl StoreError {
    /// An error with what is known of it.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// What went wrong, to act on.
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// It could not be reached.
    Unavailable,
    /// It did not answer in time. Whether it settled is unknown.
    Timeout,
    /// It answered something that we do not understand.
    Protocol,
}

impl fmt::Display for StoreErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unavailable => "unavailable",
            Self::Timeout => "timed out",
            Self::Protocol => "misunderstood",
        })
    }
}
