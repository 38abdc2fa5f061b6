//! Reads and shows sizes of memory, such as `512MiB`.

use std::ops::RangeInclusive;

/// The size of a store: `512MiB`, `4GiB`, `1500MB` or a number of bytes.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    bytes_within(text, LEAST..=MOST)
}

/// A size within bounds.
pub(crate) fn bytes_within(text: &str, bounds: RangeInclusive<u64>) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text[digits.len()..].trim();
    let factor = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let size = factor.and_then(|(_, factor)| digits.parse::<u64>().ok()?.checked_mul(*factor));
    match size {
        None => Err("expected a size such as 64KiB, 512MiB, 4GiB or a number of bytes".to_owned()),
        Some(size) if size < *bounds.start() => {
            Err(format!("expected at least {}", format_size(*bounds.start())))
        }
        Some(size) if size > *bounds.end() => {
            Err(format!("expected at most {}", format_size(*bounds.end())))
        }
        Some(size) => Ok(size),
    }
}

/// `1.5 GiB`.
pub(super) fn format_size(bytes: u64) -> String {
    let (name, unit) = match bytes {
        1 => return "1 byte".to_owned(),
        0..0x10_0000 => return format!("{bytes} bytes"),
        0x10_0000..0x4000_0000 => ("MiB", 1 << 20),
        0x4000_0000..0x100_0000_0000 => ("GiB", 1 << 30),
        _ => ("TiB", 1_u64 << 40),
    };
    match (bytes / unit, bytes % unit * 10 / unit) {
        (whole, 0) => format!("{whole} {name}"),
        (whole, tenths) => format!("{whole}.{tenths} {name}"),
    }
}

const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// A smaller store holds too few keys to be intended.
const LEAST: u64 = 1 << 20;
const MOST: u64 = 64 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        for (text, size) in [
            ("512MiB", 512 << 20),
            ("512 mib", 512 << 20),
            ("4GiB", 4 << 30),
            ("2GB", 2_000_000_000),
            ("1048576", 1 << 20),
            ("2097152B", 2 << 20),
            ("64TiB", MOST),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused_with_what_was_expected() {
        for text in
            ["", "much", "MiB", "-1MiB", "1.5GiB", "5G", "5 MiB more", "99999999999999999999", "1é"]
        {
            assert!(bytes(text).unwrap_err().contains("512MiB"), "{text}");
        }
        assert_eq!(bytes("1000"), Err("expected at least 1 MiB".to_owned()));
        assert_eq!(bytes_within("64KiB", 1..=1 << 30), Ok(65_536));
        assert_eq!(bytes_within("0", 1..=1 << 30), Err("expected at least 1 byte".to_owned()));
        assert_eq!(bytes("65TiB"), Err("expected at most 64 TiB".to_owned()));
    }

    #[test]
    fn sizes_are_shown_in_the_largest_unit() {
        let shown = [1 << 20, 512 << 20, 1_610_612_736, 12 << 30, 3 << 40].map(format_size);
        assert_eq!(shown, ["1 MiB", "512 MiB", "1.5 GiB", "12 GiB", "3 TiB"]);
    }
}
