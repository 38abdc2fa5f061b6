//! Errors of a store.

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
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    may_have_settled: bool,
}

impl StoreError {
    /// An error of this kind, with a message.
    ///
    /// Whether the charges may have been taken follows from the kind: it is unknown after a timeout and after a
    /// lost connection. [`with_outcome`](Self::with_outcome) overrides that.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        let may_have_settled = matches!(kind, StoreErrorKind::Timeout | StoreErrorKind::Lost);
        Self { kind, message: message.into(), may_have_settled }
    }

    /// Sets whether the charges may have been taken despite the error, if that is known.
    ///
    /// ```
    /// use tidegate::{StoreError, StoreErrorKind};
    ///
    /// // The request was never sent, so a timeout took nothing.
    /// let error = StoreError::new(StoreErrorKind::Timeout, "still queued").with_outcome(false);
    /// assert!(!error.may_have_settled());
    /// ```
    #[must_use]
    pub fn with_outcome(self, may_have_settled: bool) -> Self {
        Self { may_have_settled, ..self }
    }

    /// Whether the charges may have been taken despite the error. It is safe to retry only if they were
    /// not.
    ///
    /// ```
    /// use tidegate::{StoreError, StoreErrorKind};
    ///
    /// let lost = StoreError::new(StoreErrorKind::Lost, "connection reset");
    /// assert!(lost.may_have_settled());
    /// let refused = StoreError::new(StoreErrorKind::Unreachable, "connection refused");
    /// assert!(!refused.may_have_settled());
    /// ```
    pub const fn may_have_settled(&self) -> bool {
        self.may_have_settled
    }

    /// The kind of error, for code to act on.
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store {}: {}", self.kind, self.message)
    }
}

impl std::error::Error for StoreError {}

/// The kind of error, to act, count and alert on instead of matching texts.
///
/// Limiters treat all kinds alike: the policy's `on_store_error` decides. The kinds are for people who have
/// to find out what is wrong: [`name`](Self::name) is the label `kind` of a metric.
///
/// ```
/// use tidegate::StoreErrorKind;
///
/// let names: Vec<_> = StoreErrorKind::ALL.iter().map(|kind| kind.name()).collect();
/// assert!(names.contains(&"readonly"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// No connection could be made.
    Unreachable,
    /// The store did not answer in time. It is unknown whether it settled.
    Timeout,
    /// The connection broke before the answer came. It is unknown whether the store settled.
    Lost,
    /// The store refuses writes: it is a replica, or a primary that was demoted.
    ReadOnly,
    /// The store is busy or starting up, or too many requests are in flight.
    Overloaded,
    /// The store is out of memory.
    Full,
    /// The store refuses access: credentials, permissions or its own configuration.
    Misconfigured,
    /// A foreign value is stored under a counter's key.
    WrongType,
    /// The store sent an answer that violates the protocol.
    Protocol,
    /// Any other error.
    Other,
}

impl StoreErrorKind {
    /// All kinds.
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
            Self::WrongType => "holds a foreign value",
            Self::Protocol => "sent an invalid answer",
            Self::Other => "failed",
        })
    }
}
