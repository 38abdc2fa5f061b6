//! The `RateLimit` fields of draft-ietf-httpapi-ratelimit-headers-11, and `Retry-After`.

use std::fmt::Write;

use bytes::BytesMut;
use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate::{Calendar, Limit, Span};

use crate::{Answer, Said};

/// Says when to try again, and how the tightest limit stands if any was asked.
pub fn describe(answer: &Answer<'_, '_>, headers: &mut HeaderMap) {
    Fields::of(answer).insert_into(headers);
}

/// The fields of an answer, for a response that is not there yet.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    retry_after: Option<u64>,
    policy: Option<HeaderValue>,
    state: Option<HeaderValue>,
}

impl Fields {
    /// When to try again, and how the tightest limit stands if any was asked.
    pub fn of(answer: &Answer<'_, '_>) -> Self {
        let retry_after = answer.decision().retry_after().map(retry_after_secs);
        let Some(Said { policy, rule, verdict }) = answer.tightest() else {
            return Self { retry_after, ..Self::default() };
        };
        // Both fields in one allocation.
        let mut text = BytesMut::with_capacity(2 * (policy.len() + QUOTES_AND_NUMBERS));
        write_quota(&mut text, policy, &rule.limit);
        let quota = text.split();
        // Whoever heeds `t` must not come back before `Retry-After`.
        let t = retry_after.unwrap_or_else(|| verdict.reset_after.as_secs_ceil());
        write_quoted(&mut text, policy);
        write_number(&mut text, ";r=", verdict.remaining);
        write_number(&mut text, ";t=", t);
        Self { retry_after, policy: value(quota), state: value(text) }
    }

    /// When to try again, and nothing else.
    #[must_use]
    pub fn only_retry_after(self) -> Self {
        Self { retry_after: self.retry_after, ..Self::default() }
    }

    /// In place of what is there.
    pub fn insert_into(self, headers: &mut HeaderMap) {
        let Self { retry_after, policy, state } = self;
        insert_retry_after(retry_after, headers);
        for (name, value) in [(RATELIMIT_POLICY, policy), (RATELIMIT, state)] {
            value.map(|value| headers.insert(name, value));
        }
    }

    /// Beside what others have said of their limits: both fields are lists.
    pub fn append_to(self, headers: &mut HeaderMap) {
        let Self { retry_after, policy, state } = self;
        insert_retry_after(retry_after, headers);
        for (name, value) in [(RATELIMIT_POLICY, policy), (RATELIMIT, state)] {
            value.map(|value| headers.append(name, value));
        }
    }
}

fn insert_retry_after(secs: Option<u64>, headers: &mut HeaderMap) {
    if let Some(secs) = secs {
        headers.insert(RETRY_AFTER, secs.into());
    }
}

/// Whole seconds, up: zero would invite the client back at once.
fn retry_after_secs(span: Span) -> u64 {
    span.as_secs_ceil().max(1)
}

/// `w` is in whole seconds; a window that is not, or is a month, gets none rather than a wrong one.
fn write_quota(text: &mut impl Write, name: &str, limit: &Limit) {
    let quota = limit.quota();
    let is_month = limit.calendar() == Some(Calendar::Month);
    let secs = quota.window().as_secs_ceil();
    write_quoted(text, name);
    write_number(text, ";q=", quota.limit());
    if Span::from_secs(secs) == quota.window() && !is_month {
        write_number(text, ";w=", secs);
    }
}

/// Quoting leaves only printable ASCII, so this does not fail.
fn value(text: BytesMut) -> Option<HeaderValue> {
    HeaderValue::from_maybe_shared(text.freeze()).ok()
}

/// A string of RFC 9651. It can hold printable ASCII only; other bytes are percent-encoded.
fn write_quoted(text: &mut impl Write, name: &str) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    let _ = text.write_char('"');
    if name.bytes().all(is_plain) {
        let _ = text.write_str(name);
    } else {
        for byte in name.bytes() {
            let _ = match byte {
                b'"' | b'\\' => write!(text, "\\{}", char::from(byte)),
                b' '..=b'~' => text.write_char(char::from(byte)),
                _ => write!(text, "%{byte:02x}"),
            };
        }
    }
    let _ = text.write_char('"');
}

/// An integer of RFC 9651 has at most fifteen digits. Not by `write!`, which takes longer than all
/// else here.
fn write_number(text: &mut impl Write, name: &str, value: u64) {
    let _ = text.write_str(name);
    let _ = text.write_str(itoa::Buffer::new().format(value.min(999_999_999_999_999)));
}

/// What stands around a name: `"";q=100;w=86400`, and the like, with some room.
const QUOTES_AND_NUMBERS: usize = 48;
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::config::Source;
    use tidegate::{Cost, Decision, LocalStore, MemoryStore, Plan};

    fn described(policy: &str, cost: u64) -> HeaderMap {
        let text = format!("policies: [{{ key: [], {policy} }}]");
        let plan = Plan::compile(&Source::new("test", text).unwrap()).unwrap();
        let owed = plan.charges::<[(&str, &str)]>(&[], Cost::new(cost).unwrap());
        let charges = owed.charges();
        let decision = Decision::of_charges(charges, tidegate::Source::Store, |out| {
            MemoryStore::new().settle_now(charges, out)
        });
        let mut headers = HeaderMap::new();
        describe(&Answer::of_owed(&owed, &decision), &mut headers);
        headers
    }

    fn fields(name: &str, limits: &[&str], cost: u64) -> [Option<String>; 3] {
        let limits = limits.join(", ");
        let headers = described(&format!("name: {name}, limits: [{limits}]"), cost);
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
        let [policy, ..] = fields(r#"'a"b\c x: é'"#, &["1/day"], 0);
        assert_eq!(policy.unwrap(), r#""a\"b\\c x: %c3%a9";q=1;w=86400"#);
        // A plan refuses such a name; were one to come from elsewhere, it splits no header.
        let mut text = String::new();
        write_quoted(&mut text, "a\r\nx");
        assert_eq!(text, r#""a%0d%0ax""#);
    }

    #[test]
    fn numbers_fit_their_fields() {
        let [policy, ..] = fields("p", &["1000000000000000/1500ms"], 0);
        assert_eq!(policy.unwrap(), r#""p";q=999999999999999"#);
        let month = fields("p", &["{ quota: 9, per: calendar-month, algorithm: fixed-window }"], 0);
        assert_eq!(month[0].as_deref(), Some(r#""p";q=9"#));
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
        let headers = described("name: a, limits: [1/s], mode: shadow", 1);
        assert!(headers.is_empty());
    }
}
