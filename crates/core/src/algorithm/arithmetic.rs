//! Exact products and quotients: 128-bit intermediates, with a fast path for 64 bits.

/// `a * b`, which cannot overflow.
#[inline]
pub(super) fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

/// `n / d` and its remainder. A zero divisor yields zero: constructors refuse it, and a decision
/// has no way to fail.
#[inline]
pub(super) fn div_rem(n: u128, d: u64) -> (u128, u64) {
    // Nearly every quota fits in 64 bits, where a division costs a tenth as much.
    match u64::try_from(n) {
        // When nothing is left, as with a limit that denies, the division can be skipped
        // altogether.
        Ok(n) if n < d => (0, n),
        Ok(n) => match (n.checked_div(d), n.checked_rem(d)) {
            (Some(quotient), Some(rest)) => (u128::from(quotient), rest),
            _ => (0, 0),
        },
        Err(_) => wide_div_rem(n, d),
    }
}

/// `n / d`, rounded up.
#[inline]
pub(super) fn div_ceil(n: u128, d: u64) -> u128 {
    let (quotient, rest) = div_rem(n, d);
    quotient + u128::from(rest > 0)
}

/// Values above 64 bits come only from products that the caller knows will shrink again.
#[inline]
pub(super) fn narrow(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cold]
fn wide_div_rem(n: u128, d: u64) -> (u128, u64) {
    let d = u128::from(d);
    match (n.checked_div(d), n.checked_rem(d)) {
        (Some(quotient), Some(rest)) => (quotient, narrow(rest)),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_paths_agree_at_the_border() {
        let border = u128::from(u64::MAX);
        for n in [0, 1, border - 1, border, border + 1, border * 7 + 3] {
            assert_eq!(div_rem(n, 7), (n / 7, (n % 7) as u64));
            assert_eq!(div_ceil(n, 7), n.div_ceil(7));
            assert_eq!(div_rem(n, 0), (0, 0));
        }
        assert_eq!(narrow(border + 1), u64::MAX);
        assert_eq!(product(u64::MAX, u64::MAX), border * border);
    }
}
