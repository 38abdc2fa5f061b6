//! States as bytes, for stores outside this process: big-endian numbers, an instant in seven bytes.

use crate::{Span, Timestamp, text};

/// An instant takes seven bytes: it stays far below 2^56.
pub(super) const INSTANT: usize = 7;

/// The number in `width` bytes from `from` on.
pub(super) fn number(raw: &[u8], from: usize, width: usize) -> u64 {
    let bytes = raw.get(from..from + width).unwrap_or_default();
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The end of a window may lie past the latest time at which anything is decided.
pub(super) fn instant(micros: u64) -> Timestamp {
    Timestamp::ZERO + Span::from_micros(micros)
}

/// Appends the lowest `width` bytes of a number.
pub(super) fn push(out: &mut Vec<u8>, number: u64, width: usize) {
    let bytes = number.to_be_bytes();
    out.extend_from_slice(bytes.get(bytes.len() - width.min(bytes.len())..).unwrap_or_default());
}

/// A number as Redis's `INCRBY` writes it.
pub(super) fn digits(raw: &[u8]) -> Option<u64> {
    text::digits(raw).filter(|_| raw.first() != Some(&b'0'))
}

/// The same, if a double can represent it exactly.
pub(super) fn whole(raw: &[u8]) -> Option<u64> {
    digits(raw).filter(|number| *number < 1 << 53)
}

/// An instant, and two numbers of two, four or seven bytes each.
pub(super) fn three(raw: &[u8]) -> Option<(Timestamp, u64, u64)> {
    let width = match raw.len() {
        11 => 2,
        15 => 4,
        21 => 7,
        _ => return None,
    };
    let at = instant(number(raw, 0, INSTANT));
    Some((at, number(raw, INSTANT, width), number(raw, INSTANT + width, width)))
}

/// Appends what [`three`] reads, in its longest form.
pub(super) fn push_three(out: &mut Vec<u8>, at: Timestamp, second: u64, third: u64) {
    [at.as_micros(), second, third].into_iter().for_each(|number| push(out, number, INSTANT));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        let mut out = Vec::new();
        push_three(&mut out, Timestamp::from_secs(1_763_000_000), 7, 1 << 52);
        assert_eq!(three(&out), Some((Timestamp::from_secs(1_763_000_000), 7, 1 << 52)));
        assert_eq!(three(&out[1..]), None);
        assert_eq!(
            (whole(b"120"), whole(b"012"), whole(b""), whole(b"1x")),
            (Some(120), None, None, None)
        );
        assert_eq!(
            (whole(b"9007199254740992"), digits(b"9007199254740992")),
            (None, Some(1 << 53))
        );
    }
}
