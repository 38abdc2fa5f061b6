//! What a server answers.

use std::time::Duration;

use tidegate_limiter::{DecisionReason, DecisionSource};

use super::RemoteError;
use super::answer::DecisionAnswer;

/// The decision of a server, or of this client if the server did not answer.
#[derive(Clone, Debug)]
#[must_use = "a decision limits nothing unless it is checked"]
pub struct RemoteDecision {
    answer: DecisionAnswer,
    error: Option<RemoteError>,
}

impl RemoteDecision {
    pub(super) const fn of(answer: DecisionAnswer) -> Self {
        Self { answer, error: None }
    }

    /// A decision without the server.
    pub(super) fn without(is_allowed: bool, error: RemoteError) -> Self {
        let answer = DecisionAnswer {
            allowed: is_allowed,
            reason: DecisionReason::StoreUnavailable.name().to_owned(),
            source: DecisionSource::Fallback.name().to_owned(),
            ..DecisionAnswer::default()
        };
        Self { answer, error: Some(error) }
    }

    /// Whether the request may happen.
    pub const fn is_allowed(&self) -> bool {
        self.answer.allowed
    }

    /// The policy of the tightest limit.
    pub fn policy(&self) -> Option<&str> {
        self.answer.policy.as_deref()
    }

    /// The capacity of the tightest limit.
    pub const fn limit(&self) -> Option<u64> {
        self.answer.limit
    }

    /// What is left of the tightest limit.
    pub const fn remaining(&self) -> Option<u64> {
        self.answer.remaining
    }

    /// When to try again. `None` if the request was allowed, and if it never will be.
    pub fn retry_after(&self) -> Option<Duration> {
        self.answer.retry_after_ms.map(Duration::from_millis)
    }

    /// When the tightest limit is full again, if no other request comes.
    pub fn reset_after(&self) -> Option<Duration> {
        self.answer.reset_after_ms.map(Duration::from_millis)
    }

    /// Why the decision turned out as it did. `None` for a reason that this version does not know.
    pub fn reason(&self) -> Option<DecisionReason> {
        DecisionReason::ALL.iter().copied().find(|reason| reason.name() == self.answer.reason)
    }

    /// Where the decision comes from: `Fallback` if neither the server nor its store has decided. `None` for a source
    /// that this version does not know.
    pub fn source(&self) -> Option<DecisionSource> {
        DecisionSource::ALL.iter().copied().find(|source| source.name() == self.answer.source)
    }

    /// Each limit that applied.
    pub fn limits(&self) -> &[RemoteLimit] {
        &self.answer.limits
    }

    /// Why the server did not decide, if it did not.
    pub const fn error(&self) -> Option<&RemoteError> {
        self.error.as_ref()
    }
}

/// What one limit of the server says.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[non_exhaustive]
pub struct RemoteLimit {
    /// The policy it belongs to.
    pub policy: String,
    /// The algorithm.
    pub algorithm: String,
    /// The units that it has when none are used.
    pub limit: u64,
    /// The span it counts over, in milliseconds.
    pub window_ms: u64,
    /// Whether the request fits.
    pub allowed: bool,
    /// The units that are left.
    pub remaining: u64,
    /// Milliseconds until the request would fit, if it does not and ever will.
    pub retry_after_ms: Option<u64>,
    /// Milliseconds until all units are available again.
    pub reset_after_ms: u64,
    /// `enforce`, or `shadow` for a limit that is only observed.
    pub mode: String,
}
