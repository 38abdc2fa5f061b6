//! The `traceparent` header: the trace and the span of a request's caller.

use std::fmt;

use http::{HeaderMap, HeaderValue};

/// A trace, the caller's span in it, and whether that span is recorded.
///
/// ```
/// use tidegate_server::trace::TraceParent;
///
/// let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let parent = TraceParent::parse(text.as_bytes()).ok_or("not a traceparent")?;
/// assert!(parent.is_sampled());
/// assert_eq!(parent.to_string(), text);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace: u128,
    span: u64,
    is_sampled: bool,
}

impl TraceParent {
    pub(super) const fn new(trace: u128, span: u64, is_sampled: bool) -> Self {
        Self { trace, span, is_sampled }
    }

    /// Reads the header of a request. Two headers count as none.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        Self::only(headers.get_all(Self::FIELD).iter().map(HeaderValue::as_bytes))
    }

    /// Reads the values of all headers of this name.
    pub(crate) fn only<'v>(mut values: impl Iterator<Item = &'v [u8]>) -> Option<Self> {
        match (values.next(), values.next()) {
            (Some(value), None) => Self::parse(value),
            _ => None,
        }
    }

    /// Parses a header. An invalid one counts as none: the request then begins a trace of its own.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (head, rest) = text.split_at_checked(LENGTH)?;
        let &[a, b, b'-', ref ids @ ..] = head else { return None };
        let version = hex(&[a, b])?;
        let (trace, ids) = ids.split_at_checked(32)?;
        let ([b'-', span @ ..], [b'-', flags @ ..]) = ids.split_at_checked(17)? else {
            return None;
        };
        // Later versions can append more, after another hyphen.
        let is_whole = rest.is_empty() || (version > 0 && rest.first() == Some(&b'-'));
        let (trace, span, flags) = (hex(trace)?, u64::try_from(hex(span)?).ok()?, hex(flags)?);
        let is_valid = is_whole && version != 0xff && trace != 0 && span != 0;
        is_valid.then_some(Self { trace, span, is_sampled: flags & 1 == 1 })
    }

    /// The trace's number; never 0.
    pub const fn trace(self) -> u128 {
        self.trace
    }

    /// The number of the caller's span; never 0.
    pub const fn span(self) -> u64 {
        self.span
    }

    /// Whether the caller's span is recorded.
    pub const fn is_sampled(self) -> bool {
        self.is_sampled
    }

    /// The name of the header.
    pub const FIELD: &'static str = "traceparent";
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, span, is_sampled } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(*is_sampled))
    }
}

impl From<TraceParent> for HeaderValue {
    fn from(parent: TraceParent) -> Self {
        // Digits and hyphens are valid in a header, so this does not fail.
        Self::try_from(parent.to_string()).unwrap_or_else(|_| Self::from_static(""))
    }
}

/// Parses hexadecimal digits: lower case only, as the specification requires.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0_u128, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

const LENGTH: usize = 55;

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn valid_traceparents_are_read() {
        let parent = TraceParent::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(parent.trace(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(parent.span(), 0x00f0_67aa_0ba9_02b7);
        assert!(parent.is_sampled());
        assert_eq!(parent.to_string(), GOOD);
        assert_eq!(HeaderValue::from(parent), GOOD);
        let off = TraceParent::parse(GOOD.replace("-01", "-fe").as_bytes()).unwrap();
        assert!(!off.is_sampled());
        let later = format!("cc{}-what-the-future-brings", &GOOD[2..]);
        assert_eq!(TraceParent::parse(later.as_bytes()), Some(parent));
    }

    #[test]
    fn invalid_traceparents_are_ignored() {
        for wrong in [
            "",
            "00",
            &GOOD[1..],
            &GOOD[..54],
            &format!("{GOOD}-"),
            &format!("{GOOD}0"),
            &GOOD.to_uppercase(),
            &GOOD.replacen("00", "ff", 1),
            &GOOD.replacen("00", "0x", 1),
            &GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &GOOD.replace('-', "_"),
            &GOOD.replace("-01", "-0g"),
            &format!("cc{}.", &GOOD[2..]),
        ] {
            assert_eq!(TraceParent::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_repeated_traceparent_is_ignored() {
        let mut headers = HeaderMap::new();
        assert_eq!(TraceParent::of(&headers), None);
        headers.append(TraceParent::FIELD, HeaderValue::from_static(GOOD));
        assert!(TraceParent::of(&headers).is_some());
        headers.append(TraceParent::FIELD, HeaderValue::from_static(GOOD));
        assert_eq!(TraceParent::of(&headers), None);
    }
}
