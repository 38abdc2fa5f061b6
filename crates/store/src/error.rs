//! Why a store could not settle.

use std::fmt;

/// The store did not answer, or not in time. Never a decision: a denial is a verdict, not an error.
///
/// ```
/// use tidegate::{StoreError, StoreErrorKind};
///
/// let error = StoreError::new(StoreErrorKind::Timeout, "no answer within 10ms");
/// assert_eq!(error.kind(), StoreErrorKind::Timeout);
/// assert_eq!(error.to_string(), "store timed out: no answer within 10ms");
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("store {kind}: {message}")]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    may_have_settled: bool,
}

impl StoreError {
    /// An error of this kind, with a message.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        let may_have_settled = matches!(kind, StoreErrorKind::Timeout | StoreErrorKind::Lost);
        Self { kind, message: message.into(), may_have_settled }
    }

    /// Adds whether the charges may have been paid regardless, if that is known.
    #[must_use]
    pub fn with_outcome(self, may_have_settled: bool) -> Self {
        Self { may_have_settled, ..self }
    }

    /// Whether the charges may have been paid regardless. Only if they were not is it safe to ask
    /// again.
    pub const fn may_have_settled(&self) -> bool {
        self.may_have_settled
    }

    /// What went wrong, for code to act on.
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

/// What went wrong: something to act on, count and alert on. Never a text to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// No connection could be made.
    Unreachable,
    /// It did not answer in time. Whether it settled is unknown.
    Timeout,
    /// The connection broke before the answer came. Whether it settled is unknown.
    Lost,
    /// It refuses writes: a replica, or a primary that was demoted.
    ReadOnly,
    /// It is busy or starting up, or too much is in flight already.
    Overloaded,
    /// It is out of memory.
    Full,
    /// It refuses us: credentials, permissions or its own configuration.
    Misconfigured,
    /// Something that is not ours is stored where our counter should be.
    WrongType,
    /// It answered with something that we do not understand.
    Protocol,
    /// Anything else that it may say.
    Other,
}

impl StoreErrorKind {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Unreachable,
        Self::Timeout,
        Self::Lost,
        Self::ReadOnly,
        Self::Overloaded,
        Self::Full,
        Self::Misconfigured,
        Self::WrongType,
        Self::Protocol,
        Self::Other,
    ];

    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Lost => "lost",
            Self::ReadOnly => "readonly",
            Self::Overloaded => "overloaded",
            Self::Full => "full",
            Self::Misconfigured => "misconfigured",
            Self::WrongType => "wrong_type",
            Self::Protocol => "protocol",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for StoreErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timed out",
            Self::Lost => "connection lost",
            Self::ReadOnly => "read-only",
            Self::Overloaded => "overloaded",
            Self::Full => "full",
            Self::Misconfigured => "misconfigured",
            Self::WrongType => "holds something else",
            Self::Protocol => "misunderstood",
            Self::Other => "failed",
        })
    }
}
