//! Why a limiter cannot be built.

use std::fmt;

use tidegate_core::QuotaError;
use tidegate_policy::{PolicyError, Precision};

/// Why a limiter cannot be built.
///
/// Its text is for the person who wrote the limits: it shows each value and what was expected.
///
/// `Debug` is the same text, for programs whose `main` returns it.
///
/// ```
/// use tidegate::{BuildError, Limiter};
///
/// let error = Limiter::builder().limits(["5/minit", "many/hour"]).build().unwrap_err();
/// assert!(matches!(&error, BuildError::Limits(wrong) if wrong.len() == 2));
/// assert!(error.to_string().contains("unknown unit"));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// Invalid limits: all of them, not only the first.
    Limits(Vec<QuotaError>),
    /// A lease of nothing, or of more than half the limit.
    MaxOver(u16),
    /// An invalid policy.
    Policy(PolicyError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limits(problems) => {
                let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            Self::MaxOver(permille) => {
                let (least, most) = Precision::MAX_OVER_PERMILLE.into_inner();
                write!(
                    f,
                    "a lease of {permille} thousandths of a limit: expected {least} to {most}"
                )
            }
            Self::Policy(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {}

impl From<PolicyError> for BuildError {
    fn from(error: PolicyError) -> Self {
        Self::Policy(error)
    }
}
