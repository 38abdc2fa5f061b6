//! A quota as users write it: an amount per window, with an optional burst.

use std::fmt;
use std::str::FromStr;

use crate::parse;
use crate::text::brief;
use crate::{MAX_COUNT, Span};

/// An amount per span of time, with an optional burst.
///
/// Written the way people write it: `100/minute`, `5 per 10s`, `1000/1h burst 200`, `7 per 10 s`. A
/// quota is only numbers; an algorithm turns it into a [`Limit`](crate::Limit).
///
/// ```
/// use tidegate::{Quota, Span};
///
/// let quota: Quota = "1000/1h burst 200".parse()?;
/// assert_eq!(quota.limit(), 1000);
/// assert_eq!(quota.window(), Span::from_secs(3600));
/// assert_eq!(quota.burst_size(), Some(200));
///
/// let error = "100/fortnight".parse::<Quota>().unwrap_err();
/// assert!(error.to_string().contains(r#"unknown unit "fortnight""#));
/// # Ok::<(), tidegate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    limit: u64,
    window: Span,
    burst: Option<u64>,
}

impl Quota {
    /// The shortest window. Below a millisecond, network jitter decides and not the limiter.
    pub const MIN_WINDOW: Span = Span::from_millis(1);
    /// The longest window: a leap year and a month.
    pub const MAX_WINDOW: Span = Span::from_days(400);

    /// `limit` units in every `window`. A limit of 0 is a block list: it denies everything.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::Quota;
    ///
    /// assert_eq!(Quota::new(5, Duration::from_secs(10))?, "5 per 10s".parse()?);
    /// # Ok::<(), tidegate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`QuotaError`] for a limit above [`MAX_COUNT`], and for a window that is shorter than
    /// [`MIN_WINDOW`](Self::MIN_WINDOW) or longer than [`MAX_WINDOW`](Self::MAX_WINDOW).
    pub fn new(limit: u64, window: impl Into<Span>) -> Result<Self, QuotaError> {
        let window = window.into();
        if limit > MAX_COUNT {
            return Err(QuotaError::new(limit, format!("expected a limit of 0 to {MAX_COUNT}")));
        }
        if window < Self::MIN_WINDOW || window > Self::MAX_WINDOW {
            let (min, max) = (Self::MIN_WINDOW, Self::MAX_WINDOW);
            return Err(QuotaError::new(window, format!("expected a window of {min} to {max}")));
        }
        Ok(Self { limit, window, burst: None })
    }

    /// `limit` units in every second. Numbers of this size need no check, so a quota can be a constant.
    ///
    /// ```
    /// use tidegate::{Limiter, Quota};
    ///
    /// const SEARCHES: Quota = Quota::per_minute(100).burst(20);
    /// assert_eq!(SEARCHES, "100/minute burst 20".parse()?);
    /// let limiter = Limiter::builder().limit(SEARCHES).limit(Quota::per_day(10_000)).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn per_second(limit: u32) -> Self {
        Self::every(limit, Span::from_secs(1))
    }

    /// `limit` units in every minute; see [`per_second`](Self::per_second).
    pub const fn per_minute(limit: u32) -> Self {
        Self::every(limit, Span::from_secs(60))
    }

    /// `limit` units in every hour; see [`per_second`](Self::per_second).
    pub const fn per_hour(limit: u32) -> Self {
        Self::every(limit, Span::from_secs(3_600))
    }

    /// `limit` units in every 24 hours; see [`per_second`](Self::per_second).
    pub const fn per_day(limit: u32) -> Self {
        Self::every(limit, Span::from_days(1))
    }

    const fn every(limit: u32, window: Span) -> Self {
        Self { limit: limit as u64, window, burst: None }
    }

    /// Lets this many units be taken at one moment. A burst makes a limiter use a token bucket; a bucket that
    /// holds nothing is refused when the limiter is built.
    pub const fn burst(self, burst: u32) -> Self {
        Self { burst: Some(burst as u64), ..self }
    }

    /// Sets the most units that can be taken at one moment. Only a token bucket has a burst.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] for a burst of 0 or above [`MAX_COUNT`].
    pub fn with_burst(self, burst: u64) -> Result<Self, QuotaError> {
        if !(1..=MAX_COUNT).contains(&burst) {
            return Err(QuotaError::new(burst, format!("expected a burst of 1 to {MAX_COUNT}")));
        }
        Ok(Self { burst: Some(burst), ..self })
    }

    /// Rebuilds a quota from numbers that were checked when the original quota was made.
    pub(crate) const fn trusted(limit: u64, window: Span, burst: Option<u64>) -> Self {
        Self { limit, window, burst }
    }

    /// Units per window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The span over which the limit counts.
    pub const fn window(&self) -> Span {
        self.window
    }

    /// The burst, if there is one.
    pub const fn burst_size(&self) -> Option<u64> {
        self.burst
    }
}

impl FromStr for Quota {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        parse::quota(text)
    }
}

impl FromStr for Span {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        parse::span(text)
    }
}

/// The form that people write, which parses back to the same quota: `100/minute`, `5/10s burst 20`.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.limit, self.window.as_period())?;
        match self.burst {
            Some(burst) => write!(f, " burst {burst}"),
            None => Ok(()),
        }
    }
}

/// An invalid quota, span or limit. Shows the value and what was expected.
///
/// ```
/// let error = "5/minit".parse::<tidegate_core::Quota>().unwrap_err();
/// assert_eq!(error.value(), "5/minit");
/// assert!(error.to_string().starts_with(r#""5/minit": unknown unit "minit"; expected"#));
/// ```
///
/// `Debug` is the same text, for programs whose `main` returns it.
#[derive(Clone, PartialEq, Eq)]
pub struct QuotaError {
    value: String,
    problem: String,
}

impl QuotaError {
    pub(crate) fn new(value: impl ToString, problem: impl Into<String>) -> Self {
        Self { value: brief(&value.to_string(), 80), problem: brief(&problem.into(), 240) }
    }

    /// An error for a value that the caller itself refuses. `problem` says what was expected.
    pub fn refused(value: impl ToString, problem: impl Into<String>) -> Self {
        Self::new(value, problem)
    }

    /// The refused text or number, shortened if it is very long.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.value, self.problem)
    }
}

impl fmt::Debug for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for QuotaError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_checked_at_construction() {
        assert!(Quota::new(MAX_COUNT, Quota::MAX_WINDOW).is_ok());
        assert!(Quota::new(0, Quota::MIN_WINDOW).is_ok());
        for refused in [
            Quota::new(MAX_COUNT + 1, Span::from_secs(1)),
            Quota::new(1, Span::from_micros(999)),
            Quota::new(1, Span::from_days(401)),
            Quota::new(1, Span::from_secs(1)).and_then(|quota| quota.with_burst(0)),
            Quota::new(1, Span::from_secs(1)).and_then(|quota| quota.with_burst(MAX_COUNT + 1)),
        ] {
            assert!(refused.unwrap_err().to_string().contains("expected"));
        }
    }

    #[test]
    fn constants_are_the_quotas_that_people_write() {
        for (quota, text) in [
            (Quota::per_second(5), "5/second"),
            (Quota::per_minute(5).burst(2), "5/minute burst 2"),
            (Quota::per_hour(5), "5/hour"),
            (Quota::per_day(u32::MAX), "4294967295/day"),
        ] {
            assert_eq!(quota.to_string(), text);
        }
        let error = "5/minit".parse::<Quota>().unwrap_err();
        assert_eq!(format!("{error:?}"), error.to_string());
    }

    #[test]
    fn display_parses_back() {
        for text in ["100/minute", "5 per 10s", "1000/1h burst 200", "1/1ms", "0/400d"] {
            let quota: Quota = text.parse().unwrap();
            assert_eq!(quota.to_string().parse::<Quota>().unwrap(), quota);
        }
    }

    #[test]
    fn a_long_bad_value_is_not_quoted_whole() {
        let long = "x".repeat(1_000_000);
        for text in [long.clone(), format!("{long}/s"), format!("1/{long}")] {
            let error = text.parse::<Quota>().unwrap_err();
            assert!(error.to_string().len() < 400);
        }
    }
}
