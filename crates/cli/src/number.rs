//! Reads whole numbers of the command line, such as `1000`, `20k` or `1M`.

use std::ops::RangeInclusive;

/// A whole number within bounds. `k`, `M` and `G` stand for a thousand, a million and a billion.
pub(crate) fn whole<T: TryFrom<u64>>(text: &str, bounds: RangeInclusive<u64>) -> Result<T, String> {
    let digits = text.trim_end_matches(|char: char| !char.is_ascii_digit());
    let factor = match text.get(digits.len()..) {
        Some("") => Some(1),
        Some("k" | "K") => Some(1_000),
        Some("M") => Some(1_000_000),
        Some("G") => Some(1_000_000_000),
        _ => None,
    };
    let digits = digits.replace('_', "");
    let number = factor.and_then(|factor| digits.parse::<u64>().ok()?.checked_mul(factor));
    let number = number.filter(|number| bounds.contains(number));
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        format!("expected a number from {} to {}", bounds.start(), short(*bounds.end()))
    })
}

/// `10G` rather than ten zeros.
fn short(number: u64) -> String {
    for (unit, name) in [(1_000_000_000, "G"), (1_000_000, "M")] {
        if number.is_multiple_of(unit) && number > 0 {
            return format!("{}{name}", number / unit);
        }
    }
    number.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_and_without_a_suffix() {
        for (text, number) in
            [("1", 1), ("5000", 5_000), ("20k", 20_000), ("1M", 1_000_000), ("1_000", 1_000)]
        {
            assert_eq!(whole::<u64>(text, 1..=10_000_000_000), Ok(number), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_number_within_the_bounds_is_refused_with_the_bounds() {
        for text in ["", "0", "-1", "1.5", "many", "M", "1025", "1m", "1 k", "99999999999999999999"]
        {
            let expected = "expected a number from 1 to 1024".to_owned();
            assert_eq!(whole::<u16>(text, 1..=1_024), Err(expected), "{text}");
        }
        let expected = "expected a number from 1 to 10G".to_owned();
        assert_eq!(whole::<u64>("11G", 1..=10_000_000_000), Err(expected));
    }
}
