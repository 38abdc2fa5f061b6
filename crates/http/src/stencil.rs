//! How the `RateLimit` fields are written.

use bytes::Bytes;
use http::header::HeaderValue;
use tidegate_limiter::{Calendar, Limit, Policy, Span};

/// What the fields say of a limit, whatever is decided: written once where a policy decides often.
#[derive(Clone, Debug)]
pub struct Stencil {
    /// `"name";q=5;w=60`. Quoting leaves only printable ASCII, so that it is always there.
    quota: Option<HeaderValue>,
    /// How much of it is the name.
    name: usize,
}

impl Stencil {
    /// For each limit of a policy.
    pub fn each_of(policy: &Policy) -> Vec<Self> {
        policy.rules().iter().map(|rule| Self::new(policy.name(), &rule.limit)).collect()
    }

    pub(crate) fn new(policy: &str, limit: &Limit) -> Self {
        let mut text = Vec::with_capacity(policy.len() + QUOTES_AND_NUMBERS);
        let name = write_quota(&mut text, policy, limit);
        Self { quota: HeaderValue::from_maybe_shared(Bytes::from(text)).ok(), name }
    }

    /// `RateLimit-Policy` and `RateLimit`.
    pub(crate) fn fields(
        &self,
        remaining: u64,
        t: u64,
    ) -> (Option<HeaderValue>, Option<HeaderValue>) {
        let quota = self.quota.as_ref().map(HeaderValue::as_bytes);
        let name = quota.and_then(|quota| quota.get(..self.name)).unwrap_or_default();
        // To the byte: what is longer than its text would be copied once more.
        let numbers = Digits::length(remaining) + Digits::length(t);
        let mut state = Vec::with_capacity(name.len() + 6 + numbers);
        state.extend_from_slice(name);
        write_state(&mut state, remaining, t);
        (self.quota.clone(), HeaderValue::from_maybe_shared(Bytes::from(state)).ok())
    }
}

/// Writes what a limit is, and says how long the name in it is. `w` is in whole seconds; a window that
/// is not, or is a month, gets none rather than a wrong one.
pub(crate) fn write_quota(text: &mut Vec<u8>, policy: &str, limit: &Limit) -> usize {
    let before = text.len();
    let quota = limit.quota();
    let is_month = limit.calendar() == Some(Calendar::Month);
    let secs = quota.window().as_secs_ceil();
    write_quoted(text, policy);
    let name = text.len() - before;
    write(text, ";q=", Digits::new().of(quota.limit()));
    if Span::from_secs(secs) == quota.window() && !is_month {
        write(text, ";w=", Digits::new().of(secs));
    }
    name
}

/// Writes how a limit stands.
pub(crate) fn write_state(text: &mut Vec<u8>, remaining: u64, t: u64) {
    write(text, ";r=", Digits::new().of(remaining));
    write(text, ";t=", Digits::new().of(t));
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

fn write(text: &mut Vec<u8>, name: &str, value: &str) {
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(value.as_bytes());
}

/// An integer of RFC 9651, which has at most fifteen digits.
pub(crate) struct Digits(itoa::Buffer);

impl Digits {
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
/// What stands around a name: `"";q=100;w=86400`, with some room.
const QUOTES_AND_NUMBERS: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_as_many_as_are_written() {
        for value in [0, 1, 9, 10, 99, 100, LARGEST, u64::MAX] {
            assert_eq!(Digits::length(value), Digits::new().of(value).len(), "{value}");
        }
    }

    #[test]
    fn no_name_splits_a_header() {
        // A plan refuses such a name; one may come from elsewhere.
        let mut text = Vec::new();
        write_quoted(&mut text, "a\r\nx");
        assert_eq!(text, br#""a%0d%0ax""#);
    }
}
