//! Reads the times in logs.

use tidegate::Timestamp;
use tidegate_core::CivilDate;

/// Reads a time in any of the forms below; `None` for anything else.
pub(super) fn read_time(text: &[u8]) -> Option<Timestamp> {
    let text = text.trim_ascii();
    let text = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]")).unwrap_or(text);
    match text.get(2) {
        Some(b'/') => common(text),
        _ if text.get(4) == Some(&b'-') => rfc3339(text),
        _ => epoch(text),
    }
}

/// `10/Oct/2000:13:55:36 -0700`.
pub(super) fn common(text: &[u8]) -> Option<Timestamp> {
    let [d1, d2, b'/', m1, m2, m3, b'/', y1, y2, y3, y4, b':', rest @ ..] = text else {
        return None;
    };
    let month = MONTHS.iter().position(|month| *month == [*m1, *m2, *m3])?;
    let (year, day) = (number(&[*y1, *y2, *y3, *y4])?, number(&[*d1, *d2])?);
    let (clock, zone) = rest.split_at_checked(8)?;
    let offset = zone_minutes(zone.strip_prefix(b" ").unwrap_or(zone))?;
    moment(year, month as u64 + 1, day, clock, offset)
}

/// `2000-10-10T13:55:36.123-07:00`, optionally with a space for the `T`, and in UTC without a zone.
pub(super) fn rfc3339(text: &[u8]) -> Option<Timestamp> {
    let (date, rest) = text.split_at_checked(10)?;
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = date else { return None };
    let (year, month) = (number(&[*y1, *y2, *y3, *y4])?, number(&[*m1, *m2])?);
    let [b'T' | b't' | b' ', rest @ ..] = rest else { return None };
    let (clock, rest) = rest.split_at_checked(8)?;
    let (micros, zone) = fraction(rest)?;
    let at = moment(year, month, number(&[*d1, *d2])?, clock, zone_minutes(zone.trim_ascii())?)?;
    Some(Timestamp::from_micros(at.as_micros() + micros))
}

/// Seconds since the epoch, with or without a fraction; or milliseconds, microseconds or
/// nanoseconds, recognised by their magnitude.
pub(super) fn epoch(text: &[u8]) -> Option<Timestamp> {
    let digits = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at_checked(digits)?;
    let (micros, rest) = fraction(rest)?;
    if whole.is_empty() || whole.len() > 19 || !rest.is_empty() {
        return None;
    }
    let whole = number(whole)?;
    Some(match whole {
        0..100_000_000_000 => Timestamp::from_micros(whole * 1_000_000 + micros),
        100_000_000_000..100_000_000_000_000 => Timestamp::from_micros(whole * 1_000),
        100_000_000_000_000..100_000_000_000_000_000 => Timestamp::from_micros(whole),
        _ => Timestamp::from_micros(whole / 1_000),
    })
}

fn moment(year: u64, month: u64, day: u64, clock: &[u8], offset: i64) -> Option<Timestamp> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = clock else { return None };
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    // A minute may have a leap second.
    let is_valid = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_valid {
        return None;
    }
    let date = CivilDate {
        year: year.cast_signed(),
        month: u8::try_from(month).ok()?,
        day: u8::try_from(day).ok()?,
    };
    let seconds = (hour * 3_600 + minute * 60 + second).cast_signed();
    let seconds = date.days_since_epoch() * 86_400 + seconds - offset * 60;
    u64::try_from(seconds).ok().map(Timestamp::from_secs)
}

/// `.123456`, and the rest; digits after the sixth are ignored.
fn fraction(text: &[u8]) -> Option<(u64, &[u8])> {
    let [b'.' | b',', digits @ ..] = text else { return Some((0, text)) };
    let length = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at_checked(length)?;
    let micros = (0..6).fold(0, |sum, place| {
        sum * 10 + digits.get(place).map_or(0, |digit| u64::from(digit - b'0'))
    });
    Some((micros, rest))
}

/// `Z`, nothing, `-0700` or `-07:00`.
fn zone_minutes(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [] | [b'Z' | b'z'] => return Some(0),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits {
        [h1, h2, b':', m1, m2] | [h1, h2, m1, m2] => (number(&[*h1, *h2])?, number(&[*m1, *m2])?),
        _ => return None,
    };
    Some(sign * (hours * 60 + minutes).cast_signed())
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

pub(super) const MONTHS: [[u8; 3]; 12] = [
    *b"Jan", *b"Feb", *b"Mar", *b"Apr", *b"May", *b"Jun", *b"Jul", *b"Aug", *b"Sep", *b"Oct",
    *b"Nov", *b"Dec",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_moment_has_many_spellings() {
        for text in [
            "10/Oct/2000:13:55:36 -0700",
            "[10/Oct/2000:20:55:36 +0000]",
            "2000-10-10T20:55:36Z",
            "2000-10-10 20:55:36",
            "2000-10-10T13:55:36-07:00",
            "2000-10-10t22:25:36.000+0130",
            "971211336",
            "971211336.0",
            "971211336000",
            "971211336000000",
            "971211336000000000",
        ] {
            let read = read_time(text.as_bytes());
            assert_eq!(read, Some(Timestamp::from_secs(971_211_336)), "{text}");
        }
        let micros = |text: &str| read_time(text.as_bytes()).map(|at| at.as_micros() % 1_000_000);
        assert_eq!(micros("2000-10-10T20:55:36.1234567Z"), Some(123_456));
        assert_eq!(micros("971211336.5"), Some(500_000));
    }

    #[test]
    fn invalid_times_are_refused() {
        for text in [
            "",
            "-",
            "yesterday",
            "10/Okt/2000:13:55:36 -0700",
            "2000-13-10T20:55:36Z",
            "2000-10-10T25:55:36Z",
            "2000-10-10",
            "1.2.3",
            "-5",
            "99999999999999999999",
            "10/Oct/2000:13:55:36",
            "10/Oct/2000:13:55:36 -7",
            "1969-12-31T23:59:59Z",
            "12x",
        ] {
            let read = read_time(text.as_bytes());
            let expected = text == "10/Oct/2000:13:55:36";
            assert_eq!(read.is_some(), expected, "{text}: {read:?}");
        }
    }
}
