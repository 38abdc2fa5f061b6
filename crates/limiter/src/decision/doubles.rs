//! Decisions that tests make up.

use std::time::Duration;

use super::{Decision, DecisionSource};

impl Decision {
    /// A decision that allows, made up for a test of code that gets decisions. No limit applied to it.
    ///
    /// ```
    /// use tidegate::Decision;
    ///
    /// assert!(Decision::allow().is_allowed());
    /// ```
    pub fn allow() -> Self {
        Self::without_verdicts(true, DecisionSource::None)
    }

    /// A decision that denies, made up for a test of code that gets decisions.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::Decision;
    ///
    /// let denied = Decision::deny(Duration::from_secs(9));
    /// assert!(!denied.is_allowed());
    /// assert_eq!(denied.retry_after(), Some(Duration::from_secs(9)));
    /// ```
    pub fn deny(retry_after: Duration) -> Self {
        Self {
            retry_after: Some(retry_after.into()),
            ..Self::without_verdicts(false, DecisionSource::None)
        }
    }
}
