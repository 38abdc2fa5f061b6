//! The `RateLimit` fields of draft-ietf-httpapi-ratelimit-headers-11, and `Retry-After`.

use std::fmt::Write;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate::{Decision, Policy, Quota, Span};

/// Says how the tightest limit stands. Says nothing when no limit was asked.
pub(super) fn describe(policy: &Policy, decision: &Decision, headers: &mut HeaderMap) {
    let Some(index) = decision.tightest_index() else { return };
    let (rules, verdicts) = (policy.rules(), decision.verdicts());
    let (Some(rule), Some(verdict)) = (rules.get(index), verdicts.get(index)) else { return };
    let name = quoted(policy.name());
    let retry_after = decision.retry_after().map(retry_after_secs);
    // Whoever heeds `t` must not come back before `Retry-After`.
    let t = retry_after.unwrap_or_else(|| verdict.reset_after.as_secs_ceil());
    let r = integer(verdict.remaining);
    insert(headers, RATELIMIT_POLICY, quota_item(&name, &rule.limit.quota()));
    insert(headers, RATELIMIT, format!("{name};r={r};t={}", integer(t)));
    if let Some(secs) = retry_after {
        headers.insert(RETRY_AFTER, secs.into());
    }
}

/// Whole seconds, up: zero would invite the client back at once.
fn retry_after_secs(span: Span) -> u64 {
    span.as_secs_ceil().max(1)
}

/// `w` is in whole seconds; a window that is not gets none rather than a wrong one.
fn quota_item(name: &str, quota: &Quota) -> String {
    let (q, secs) = (integer(quota.limit()), quota.window().as_secs_ceil());
    if Span::from_secs(secs) == quota.window() {
        format!("{name};q={q};w={secs}")
    } else {
        format!("{name};q={q}")
    }
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: String) {
    // Quoting leaves only printable ASCII, so this does not fail.
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

/// A string of RFC 9651. It can hold printable ASCII only; other bytes are percent-encoded.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => drop(write!(quoted, "%{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

/// An integer of RFC 9651 has at most fifteen digits.
fn integer(value: u64) -> u64 {
    value.min(999_999_999_999_999)
}

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::{Cost, Limiter};

    fn fields(name: &str, limits: &[&str], cost: u64) -> [Option<String>; 3] {
        let limits = limits.iter().copied();
        let limiter = Limiter::builder().name(name).limits(limits).build().unwrap();
        let decision = limiter.check_n_now("alice", Cost::new(cost).unwrap());
        let mut headers = HeaderMap::new();
        describe(limiter.policy(), &decision, &mut headers);
        [RATELIMIT_POLICY, RATELIMIT, RETRY_AFTER]
            .map(|name| Some(headers.get(name)?.to_str().unwrap().to_owned()))
    }

    #[test]
    fn the_tightest_limit_is_shown() {
        let [policy, state, retry] = fields("api", &["100/minute burst 100", "5/hour burst 5"], 1);
        assert_eq!(policy.unwrap(), r#""api";q=5;w=3600"#);
        assert_eq!(state.unwrap(), r#""api";r=4;t=720"#);
        assert_eq!(retry, None);
    }

    #[test]
    fn names_are_quoted_whatever_they_hold() {
        let [policy, ..] = fields("a\"b\\c\r\nx: é", &["1/day"], 0);
        assert_eq!(policy.unwrap(), r#""a\"b\\c%0d%0ax: %c3%a9";q=1;w=86400"#);
    }

    #[test]
    fn numbers_fit_their_fields() {
        let [policy, ..] = fields("p", &["1000000000000000/1500ms"], 0);
        assert_eq!(policy.unwrap(), r#""p";q=999999999999999"#);
        assert_eq!(retry_after_secs(Span::ZERO), 1);
        assert_eq!(retry_after_secs(Span::from_millis(1_001)), 2);
    }

    #[test]
    fn a_cost_that_never_fits_is_not_invited_back() {
        let [_, state, retry] = fields("p", &["5/minute"], 6);
        assert_eq!(state.unwrap(), r#""p";r=5;t=0"#);
        assert_eq!(retry, None);
    }

    #[test]
    fn without_a_limit_there_is_nothing_to_say() {
        let limiter = Limiter::builder().limit("1/s").shadow().build().unwrap();
        let mut headers = HeaderMap::new();
        describe(limiter.policy(), &limiter.check_now("alice"), &mut headers);
        assert!(headers.is_empty());
    }
}
