//! Writes the `RateLimit` fields, with a cache of their constant parts.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::header::HeaderValue;
use tidegate_limiter::{CalendarPeriod, Limit, Policy, Span};

/// The part of the fields that is the same for every decision by a limit, so that it is written once.
#[derive(Debug)]
pub struct CachedPolicyHeader {
    /// `"name";q=5;w=60`.
    quota: HeaderValue,
    /// The length of the quoted name at its start.
    name: usize,
}

impl CachedPolicyHeader {
    /// The cached headers of a policy's limits. Empty if a thousand others are cached already: the cache
    /// never shrinks.
    pub fn each_of(policy: &Policy) -> Vec<&'static Self> {
        let cached = |limit| Self::new(policy.name(), limit).cached();
        let each: Option<_> = policy.rules().iter().map(|rule| cached(&rule.limit)).collect();
        each.unwrap_or_default()
    }

    pub(crate) fn new(policy: &str, limit: &Limit) -> Self {
        let mut text = Vec::with_capacity(policy.len() + QUOTES_AND_NUMBERS);
        let name = write_quota(&mut text, policy, limit);
        Self { quota: value(Bytes::from(text)), name }
    }

    /// The same header with a static lifetime. Every response carries the quota, and static bytes are
    /// shared between cores without a reference count.
    fn cached(&self) -> Option<&'static Self> {
        let mut all = CACHED_HEADERS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().find(|known| known.quota == self.quota && known.name == self.name);
        if known.is_some() || all.len() == MAX_CACHED_HEADERS {
            return known.copied();
        }
        let text: &'static [u8] = self.quota.as_bytes().to_vec().leak();
        let kept = &*Box::leak(Box::new(Self { quota: value(Bytes::from_static(text)), ..*self }));
        all.push(kept);
        Some(kept)
    }

    /// `RateLimit-Policy`.
    pub(crate) fn quota(&self) -> HeaderValue {
        self.quota.clone()
    }

    /// `RateLimit`.
    pub(crate) fn state(&self, remaining: u64, t: u64) -> HeaderValue {
        let name = self.quota.as_bytes().get(..self.name).unwrap_or_default();
        // The exact capacity: with a larger one, `Bytes` would copy the text again.
        let numbers = FieldInteger::length(remaining) + FieldInteger::length(t);
        let mut state = Vec::with_capacity(name.len() + 6 + numbers);
        state.extend_from_slice(name);
        write_state(&mut state, remaining, t);
        value(Bytes::from(state))
    }
}

/// The most cached headers: more than a program has limits, unless it creates them at run time.
const MAX_CACHED_HEADERS: usize = 1_000;

static CACHED_HEADERS: Mutex<Vec<&'static CachedPolicyHeader>> = Mutex::new(Vec::new());

/// A header value. Quoting leaves only printable ASCII, which is always valid.
fn value(text: Bytes) -> HeaderValue {
    HeaderValue::from_maybe_shared(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Writes the quota of a limit, and returns the length of the quoted name. `w` is in whole seconds; a
/// window with a fraction, or a month, gets no `w` rather than a wrong one.
pub(crate) fn write_quota(text: &mut Vec<u8>, policy: &str, limit: &Limit) -> usize {
    let before = text.len();
    let quota = limit.quota();
    let is_month = limit.calendar() == Some(CalendarPeriod::Month);
    let secs = quota.window().as_secs_ceil();
    write_quoted(text, policy);
    let name = text.len() - before;
    write_parameter(text, ";q=", FieldInteger::new().of(quota.limit()));
    if Span::from_secs(secs) == quota.window() && !is_month {
        write_parameter(text, ";w=", FieldInteger::new().of(secs));
    }
    name
}

/// Writes the state of a limit.
pub(crate) fn write_state(text: &mut Vec<u8>, remaining: u64, t: u64) {
    write_parameter(text, ";r=", FieldInteger::new().of(remaining));
    write_parameter(text, ";t=", FieldInteger::new().of(t));
}

/// A string of RFC 9651. It can hold printable ASCII only; other bytes are percent-encoded.
pub(crate) fn write_quoted(text: &mut Vec<u8>, name: &str) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    text.push(b'"');
    if name.bytes().all(is_plain) {
        text.extend_from_slice(name.as_bytes());
    } else {
        for byte in name.bytes() {
            match byte {
                b'"' | b'\\' => text.extend_from_slice(&[b'\\', byte]),
                b' '..=b'~' => text.push(byte),
                _ => text.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            }
        }
    }
    text.push(b'"');
}

fn write_parameter(text: &mut Vec<u8>, name: &str, value: &str) {
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(value.as_bytes());
}

/// An integer of RFC 9651, which has at most fifteen digits.
pub(crate) struct FieldInteger(itoa::Buffer);

impl FieldInteger {
    pub(crate) fn new() -> Self {
        Self(itoa::Buffer::new())
    }

    pub(crate) fn of(&mut self, value: u64) -> &str {
        self.0.format(value.min(LARGEST))
    }

    fn length(value: u64) -> usize {
        value.min(LARGEST).checked_ilog10().map_or(1, |log| log as usize + 1)
    }
}

const LARGEST: u64 = 999_999_999_999_999;
/// Room for what surrounds a name: `"";q=100;w=86400`, and some more.
const QUOTES_AND_NUMBERS: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_as_many_as_are_written() {
        for value in [0, 1, 9, 10, 99, 100, LARGEST, u64::MAX] {
            assert_eq!(FieldInteger::length(value), FieldInteger::new().of(value).len(), "{value}");
        }
    }

    #[test]
    fn stencils_are_kept_once_and_not_without_end() {
        let policy = |limit: &str| Policy::new("kept", [limit.parse().unwrap()]).unwrap();
        let [first, again] = [
            CachedPolicyHeader::each_of(&policy("1/s")),
            CachedPolicyHeader::each_of(&policy("1/s")),
        ];
        assert!(std::ptr::eq(first[0], again[0]));
        let limits = (2..=2 + MAX_CACHED_HEADERS).map(|limit| policy(&format!("{limit}/s")));
        assert!(
            limits.map(|policy| CachedPolicyHeader::each_of(&policy)).any(|each| each.is_empty())
        );
        assert!(std::ptr::eq(first[0], CachedPolicyHeader::each_of(&policy("1/s"))[0]));
    }

    #[test]
    fn no_name_splits_a_header() {
        // A plan refuses such a name, but other code can pass one.
        let mut text = Vec::new();
        write_quoted(&mut text, "a\r\nx");
        assert_eq!(text, br#""a%0d%0ax""#);
    }
}
