//! The legacy fields `X-RateLimit-*`, for older clients.

use http::HeaderMap;
use http::header::HeaderName;
use tidegate_limiter::config::LegacyHeaders;
use tidegate_limiter::{Clock, SystemClock, Timestamp};

use crate::RateLimitAnswer;

/// Adds `X-RateLimit-Limit`, `-Remaining` and `-Reset` of the tightest limit, if there is one. The
/// last is when to retry, in this unit.
///
/// ```
/// use http::HeaderMap;
/// use tidegate::Limiter;
/// use tidegate::config::LegacyHeaders;
/// use tidegate::http::RateLimitAnswer;
/// use tidegate_http::describe_legacy;
///
/// let limiter = Limiter::builder().name("api").limit("5/minute").build()?;
/// let decision = limiter.check_now("alice");
/// let answer = RateLimitAnswer::of_policy(limiter.policy(), &decision);
/// let mut headers = HeaderMap::new();
/// describe_legacy(&answer, LegacyHeaders::Seconds, &mut headers);
/// assert_eq!(headers["x-ratelimit-remaining"], "4");
/// # Ok::<(), tidegate::BuildError>(())
/// ```
pub fn describe_legacy(
    answer: &RateLimitAnswer<'_, '_>,
    unit: LegacyHeaders,
    headers: &mut HeaderMap,
) {
    if let Some(legacy) = LegacyValues::of(answer, unit) {
        legacy.insert_into(headers);
    }
}

/// The values of the legacy fields.
#[derive(Clone, Debug)]
pub(crate) struct LegacyValues {
    limit: u64,
    remaining: u64,
    reset: u64,
}

impl LegacyValues {
    pub(crate) fn of(answer: &RateLimitAnswer<'_, '_>, unit: LegacyHeaders) -> Option<Self> {
        let now = match unit {
            LegacyHeaders::EpochSeconds => SystemClock::new().now(),
            _ => Timestamp::ZERO,
        };
        Self::at(now, answer, unit)
    }

    fn at(now: Timestamp, answer: &RateLimitAnswer<'_, '_>, unit: LegacyHeaders) -> Option<Self> {
        let report = answer.tightest()?;
        let wait = answer.decision().retry_span().unwrap_or(report.verdict.reset_after);
        let reset = match unit {
            LegacyHeaders::Milliseconds => wait.as_millis_ceil(),
            LegacyHeaders::EpochSeconds => (now + wait).as_micros().div_ceil(1_000_000),
            // Seconds, and any future unit.
            _ => wait.as_secs_ceil(),
        };
        Some(Self { limit: report.verdict.limit, remaining: report.verdict.remaining, reset })
    }

    /// The names and values of the fields.
    pub(crate) const fn fields(&self) -> [(&'static str, u64); 3] {
        [(LIMIT, self.limit), (REMAINING, self.remaining), (RESET, self.reset)]
    }

    pub(crate) fn insert_into(&self, headers: &mut HeaderMap) {
        for (name, value) in self.fields() {
            headers.insert(HeaderName::from_static(name), value.into());
        }
    }

    /// [`insert_into`](Self::insert_into), unless the fields already show a limit with less remaining:
    /// these fields are not lists.
    pub(crate) fn insert_if_tighter(&self, headers: &mut HeaderMap) {
        let other =
            headers.get(REMAINING).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if other.is_none_or(|other| self.remaining <= other) {
            self.insert_into(headers);
        }
    }
}

const LIMIT: &str = "x-ratelimit-limit";
const REMAINING: &str = "x-ratelimit-remaining";
const RESET: &str = "x-ratelimit-reset";

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_limiter::{Limiter, ManualClock, MemoryStore, Span};

    fn fields(unit: LegacyHeaders) -> [String; 3] {
        let now = Timestamp::from_secs(1_000_000_000);
        let clock = ManualClock::at(now);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = Limiter::builder().limit("2/hour burst 2").store(store).build().unwrap();
        clock.advance(Span::from_millis(500));
        let decision = limiter.check_now("alice");
        let mut headers = HeaderMap::new();
        let answer = RateLimitAnswer::of_policy(limiter.policy(), &decision);
        let legacy = LegacyValues::at(now + Span::from_millis(500), &answer, unit).unwrap();
        legacy.insert_into(&mut headers);
        [LIMIT, REMAINING, RESET].map(|name| headers[name].to_str().unwrap().to_owned())
    }

    #[test]
    fn the_reset_is_in_the_unit_that_was_asked_for() {
        assert_eq!(fields(LegacyHeaders::Seconds), ["2", "1", "1800"]);
        assert_eq!(fields(LegacyHeaders::Milliseconds), ["2", "1", "1800000"]);
        assert_eq!(fields(LegacyHeaders::EpochSeconds), ["2", "1", "1000001801"]);
    }

    #[test]
    fn of_two_limits_the_one_with_less_remaining_is_shown() {
        let mut headers = HeaderMap::new();
        for (remaining, told) in [(5, "5"), (9, "5"), (3, "3")] {
            LegacyValues { limit: 10, remaining, reset: 1 }.insert_if_tighter(&mut headers);
            assert_eq!(headers[REMAINING], told);
        }
    }

    #[test]
    fn epochs_are_of_this_time() {
        let limiter = Limiter::builder().limit("2/hour").build().unwrap();
        let decision = limiter.check_now("alice");
        let mut headers = HeaderMap::new();
        let answer = RateLimitAnswer::of_policy(limiter.policy(), &decision);
        describe_legacy(&answer, LegacyHeaders::EpochSeconds, &mut headers);
        let reset: u64 = headers[RESET].to_str().unwrap().parse().unwrap();
        assert!(reset > 1_700_000_000, "{reset}");
    }
}
