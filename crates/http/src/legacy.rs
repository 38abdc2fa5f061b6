//! `X-RateLimit-*`, for clients that know nothing newer.

use http::HeaderMap;
use http::header::HeaderName;
use tidegate_limiter::config::LegacyHeaders;
use tidegate_limiter::{Clock, SystemClock, Timestamp};

use crate::Answer;

/// Adds `X-RateLimit-Limit`, `-Remaining` and `-Reset` of the tightest limit, if any was asked. The
/// last is when to come back, in this unit.
pub fn describe_legacy(answer: &Answer<'_, '_>, unit: LegacyHeaders, headers: &mut HeaderMap) {
    let now = match unit {
        LegacyHeaders::EpochSeconds => SystemClock::new().now(),
        _ => Timestamp::ZERO,
    };
    describe_at(answer, unit, now, headers);
}

fn describe_at(
    answer: &Answer<'_, '_>,
    unit: LegacyHeaders,
    now: Timestamp,
    headers: &mut HeaderMap,
) {
    let Some(said) = answer.tightest() else { return };
    let wait = answer.decision().retry_after().unwrap_or(said.verdict.reset_after);
    let reset = match unit {
        LegacyHeaders::Milliseconds => wait.as_millis_ceil(),
        LegacyHeaders::EpochSeconds => (now + wait).as_micros().div_ceil(1_000_000),
        // Seconds, and whatever else may come to be counted from now.
        _ => wait.as_secs_ceil(),
    };
    headers.insert(LIMIT, said.verdict.limit.into());
    headers.insert(REMAINING, said.verdict.remaining.into());
    headers.insert(RESET, reset.into());
}

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

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
        let answer = Answer::of_policy(limiter.policy(), &decision);
        describe_at(&answer, unit, now + Span::from_millis(500), &mut headers);
        [LIMIT, REMAINING, RESET].map(|name| headers[name].to_str().unwrap().to_owned())
    }

    #[test]
    fn the_reset_is_in_the_unit_that_was_asked_for() {
        assert_eq!(fields(LegacyHeaders::Seconds), ["2", "1", "1800"]);
        assert_eq!(fields(LegacyHeaders::Milliseconds), ["2", "1", "1800000"]);
        assert_eq!(fields(LegacyHeaders::EpochSeconds), ["2", "1", "1000001801"]);
    }

    #[test]
    fn epochs_are_of_this_time() {
        let limiter = Limiter::builder().limit("2/hour").build().unwrap();
        let decision = limiter.check_now("alice");
        let mut headers = HeaderMap::new();
        let answer = Answer::of_policy(limiter.policy(), &decision);
        describe_legacy(&answer, LegacyHeaders::EpochSeconds, &mut headers);
        let reset: u64 = headers[RESET].to_str().unwrap().parse().unwrap();
        assert!(reset > 1_700_000_000, "{reset}");
    }
}
