//! A limit as the builder accepts it.

use tidegate_core::{AlgorithmKind, Limit, Quota, QuotaError};

/// A limit as the builder accepts it.
///
/// Usually you need not name it: text, a [`Quota`] and a [`Limit`] convert into it.
///
/// ```
/// use tidegate::{LimitSpec, Limiter, Quota};
///
/// // Limits from a program's own configuration.
/// let limits: Vec<LimitSpec> = vec!["5/second".into(), Quota::per_day(1_000).into()];
/// let limiter = Limiter::builder().limits(limits).build()?;
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LimitSpec {
    /// `100/minute`, `5 per 10s`, `1000/1h burst 200`.
    Text(String),
    /// A quota, which uses the builder's algorithm.
    Quota(Quota),
    /// A limit with its own algorithm.
    Limit(Limit),
}

impl LimitSpec {
    pub(super) fn compile(self, algorithm: Option<AlgorithmKind>) -> Result<Limit, QuotaError> {
        let quota = match self {
            Self::Limit(limit) => return Ok(limit),
            Self::Quota(quota) => quota,
            Self::Text(text) => text.parse()?,
        };
        Limit::new(algorithm.unwrap_or(AlgorithmKind::for_quota(&quota)), &quota)
    }
}

impl From<&str> for LimitSpec {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for LimitSpec {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Quota> for LimitSpec {
    fn from(quota: Quota) -> Self {
        Self::Quota(quota)
    }
}

impl From<Limit> for LimitSpec {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit)
    }
}
