//! The `RateLimit` fields of draft-ietf-httpapi-ratelimit-headers-11, and `Retry-After`.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate_limiter::{Calendar, Limit, Policy, Span};

use crate::{Answer, Said};

/// Says when to try again, and how the tightest limit stands if any was asked.
pub fn describe(answer: &Answer<'_, '_>, headers: &mut HeaderMap) {
    Fields::of(answer).insert_into(headers);
}

/// Tells the same to `tell`, a field at a time, for those who have no header map: its name, and what
/// writes its value behind what is there.
pub fn each_field(
    answer: &Answer<'_, '_>,
    mut tell: impl FnMut(&'static str, &dyn Fn(&mut Vec<u8>)),
) {
    let told = Told::by(answer);
    if let Some(secs) = told.retry_after {
        tell("retry-after", &|out| out.extend_from_slice(Digits::new().of(secs).as_bytes()));
    }
    if let Some((_, said)) = told.tightest {
        tell("ratelimit-policy", &|out| {
            write_quota(out, said.policy, &said.rule.limit);
        });
        tell("ratelimit", &|out| {
            write_quoted(out, said.policy);
            write_state(out, said.verdict.remaining, told.t);
        });
    }
}

/// What the fields are made of.
struct Told<'a> {
    retry_after: Option<u64>,
    /// The tightest limit, and its place.
    tightest: Option<(usize, Said<'a>)>,
    t: u64,
}

impl<'a> Told<'a> {
    fn by(answer: &Answer<'a, '_>) -> Self {
        let decision = answer.decision();
        let retry_after = answer.retry_after().map(retry_after_secs);
        let tightest = decision.tightest_index();
        let tightest = tightest.and_then(|index| Some((index, answer.said(index)?)));
        let reset = tightest.map(|(_, said)| said.verdict.reset_after.as_secs_ceil());
        // Whoever heeds `t` must not come back before `Retry-After`.
        Self { retry_after, tightest, t: retry_after.or(reset).unwrap_or_default() }
    }
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
        let Told { retry_after, tightest, t } = Told::by(answer);
        let Some((index, said)) = tightest else {
            return Self { retry_after, ..Self::default() };
        };
        let (policy, state) = match answer.stencil(index) {
            Some(stencil) => stencil.fields(said.verdict.remaining, t),
            None => Stencil::new(said.policy, &said.rule.limit).fields(said.verdict.remaining, t),
        };
        Self { retry_after, policy, state }
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

    fn new(policy: &str, limit: &Limit) -> Self {
        let mut text = Vec::with_capacity(policy.len() + QUOTES_AND_NUMBERS);
        let name = write_quota(&mut text, policy, limit);
        Self { quota: HeaderValue::from_maybe_shared(Bytes::from(text)).ok(), name }
    }

    /// `RateLimit-Policy` and `RateLimit`.
    fn fields(&self, remaining: u64, t: u64) -> (Option<HeaderValue>, Option<HeaderValue>) {
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
fn write_quota(text: &mut Vec<u8>, policy: &str, limit: &Limit) -> usize {
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
fn write_state(text: &mut Vec<u8>, remaining: u64, t: u64) {
    write(text, ";r=", Digits::new().of(remaining));
    write(text, ";t=", Digits::new().of(t));
}

/// A string of RFC 9651. It can hold printable ASCII only; other bytes are percent-encoded.
fn write_quoted(text: &mut Vec<u8>, name: &str) {
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
struct Digits(itoa::Buffer);

impl Digits {
    fn new() -> Self {
        Self(itoa::Buffer::new())
    }

    fn of(&mut self, value: u64) -> &str {
        self.0.format(value.min(LARGEST))
    }

    fn length(value: u64) -> usize {
        value.min(LARGEST).checked_ilog10().map_or(1, |log| log as usize + 1)
    }
}

const LARGEST: u64 = 999_999_999_999_999;
/// What stands around a name: `"";q=100;w=86400`, with some room.
const QUOTES_AND_NUMBERS: usize = 48;
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_limiter::config::Source;
    use tidegate_limiter::{Cost, Decision, LocalStore, MemoryStore, Plan};

    fn described(policy: &str, cost: u64) -> HeaderMap {
        let text = format!("policies: [{{ key: [], {policy} }}]");
        let plan = Plan::compile(&Source::new("test", text).unwrap()).unwrap();
        let owed = plan.charges::<[(&str, &str)]>(&[], Cost::new(cost).unwrap());
        let charges = owed.charges();
        let decision = Decision::of_charges(charges, tidegate_limiter::Source::Store, |out| {
            MemoryStore::new().settle_now(charges, out)
        });
        let (answer, mut headers) = (Answer::of_owed(&owed, &decision), HeaderMap::new());
        describe(&answer, &mut headers);
        assert_eq!(told(&answer), headers);
        headers
    }

    fn told(answer: &Answer<'_, '_>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        each_field(answer, |name, write| {
            let mut value = Vec::new();
            write(&mut value);
            headers.insert(name, HeaderValue::from_bytes(&value).unwrap());
        });
        headers
    }

    #[test]
    fn digits_are_as_many_as_are_written() {
        for value in [0, 1, 9, 10, 99, 100, LARGEST, u64::MAX] {
            assert_eq!(Digits::length(value), Digits::new().of(value).len(), "{value}");
        }
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
        let mut text = Vec::new();
        write_quoted(&mut text, "a\r\nx");
        assert_eq!(text, br#""a%0d%0ax""#);
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
