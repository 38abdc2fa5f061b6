//! Parses quotas and spans the way people write them.

use crate::{Quota, QuotaError, Span};

/// What a quota error ends with, unless only the unit is wrong.
const FORM: &str = "expected a quota such as 100/minute, 5 per 10s or 1000/1h burst 200";
const UNITS: &str = "expected ms, s, m, h or d (or millisecond, second, minute, hour, day)";

/// `LIMIT ("/" | "per") [COUNT] UNIT ["burst" BURST]`.
pub(crate) fn quota(text: &str) -> Result<Quota, QuotaError> {
    let fail = |problem: String| QuotaError::new(text, problem);
    let (rate, burst) = split_word(text, "burst");
    let (limit, window) = rate
        .split_once('/')
        .or_else(|| split_word_required(rate, "per"))
        .ok_or_else(|| fail(format!("{}; {FORM}", no_separator(rate))))?;
    let limit = whole(limit).map_err(|problem| fail(format!("{problem}; {FORM}")))?;
    let window = units(window).map_err(|problem| match problem.ends_with(UNITS) {
        true => fail(problem),
        false => fail(format!("{problem}; {FORM}")),
    })?;
    let explain = |error: QuotaError| fail(error.to_string());
    let quota = Quota::new(limit, window).map_err(explain)?;
    match burst {
        None => Ok(quota),
        Some(burst) => {
            let burst = whole(burst).map_err(|problem| fail(format!("{problem}; {FORM}")))?;
            quota.with_burst(burst).map_err(explain)
        }
    }
}

fn no_separator(rate: &str) -> &'static str {
    match rate.contains("per") {
        true => "\"per\" has no spaces around it",
        false => "no \"/\" or \"per\"",
    }
}

/// `[COUNT] UNIT`: `10s`, `1h`, `minute`, `250 ms`.
pub(crate) fn span(text: &str) -> Result<Span, QuotaError> {
    units(text).map_err(|problem| QuotaError::new(text, problem))
}

fn units(text: &str) -> Result<Span, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (count, unit) = text.split_at(digits);
    let count = if count.is_empty() { 1 } else { whole(count)? };
    let micros = micros_per(unit.trim())?;
    let total = count.checked_mul(micros).ok_or_else(|| format!("{text:?} is too long"))?;
    Ok(Span::from_micros(total))
}

fn micros_per(unit: &str) -> Result<u64, String> {
    Ok(match unit.to_ascii_lowercase().as_str() {
        "us" | "microsecond" | "microseconds" => 1,
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 1_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000,
        "d" | "day" | "days" => 86_400_000_000,
        "" => return Err(format!("no unit; {UNITS}")),
        _ => return Err(format!("unknown unit {unit:?}; {UNITS}")),
    })
}

/// Digits, optionally grouped by underscores.
fn whole(text: &str) -> Result<u64, String> {
    let digits: String = text.trim().chars().filter(|c| *c != '_').collect();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("{:?} is not a whole number", text.trim()));
    }
    digits.parse().map_err(|_| format!("{digits} is too large"))
}

/// Splits at a word that stands alone; returns the whole text if it does not occur.
fn split_word<'a>(text: &'a str, word: &str) -> (&'a str, Option<&'a str>) {
    match split_word_required(text, word) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn split_word_required<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let (at, _) = text.match_indices(word).find(|(at, _)| {
        let around = [text[..*at].chars().next_back(), text[at + word.len()..].chars().next()];
        around.iter().flatten().all(|c| c.is_whitespace())
    })?;
    Some((&text[..at], &text[at + word.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_read_as_people_write_them() {
        let minute = Span::from_secs(60);
        for (text, limit, window, burst) in [
            ("100/minute", 100, minute, None),
            ("100 / minute", 100, minute, None),
            ("100/min", 100, minute, None),
            ("100 per minutes", 100, minute, None),
            ("5 per 10s", 5, Span::from_secs(10), None),
            ("7 per 10 s", 7, Span::from_secs(10), None),
            ("1000/1h burst 200", 1000, Span::from_secs(3600), Some(200)),
            ("1_500_000/s", 1_500_000, Span::from_secs(1), None),
            ("1/250ms", 1, Span::from_millis(250), None),
            ("10/2 Hours", 10, Span::from_secs(7200), None),
            ("3/day", 3, Span::from_days(1), None),
            ("0/second", 0, Span::from_secs(1), None),
        ] {
            let quota = quota(text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((quota.limit(), quota.window(), quota.burst_size()), (limit, window, burst));
        }
    }

    #[test]
    fn errors_show_the_value_and_what_was_expected() {
        for (text, part) in [
            ("", "no \"/\" or \"per\""),
            ("100", "no \"/\" or \"per\""),
            ("100minute", "no \"/\" or \"per\""),
            ("5perminute", "\"per\" has no spaces around it; expected a quota such as"),
            ("ten/minute", "\"ten\" is not a whole number"),
            ("-1/minute", "\"-1\" is not a whole number"),
            ("1.5/s", "\"1.5\" is not a whole number"),
            ("100/", "no unit"),
            ("100/10", "no unit"),
            ("100/fortnight", "unknown unit \"fortnight\""),
            ("100/0s", "expected a window of 1ms to 400d"),
            ("100/401d", "expected a window of 1ms to 400d"),
            ("100/minute burst", "\"\" is not a whole number"),
            ("100/minute burst 0", "expected a burst of 1 to"),
            ("99999999999999999999/s", "99999999999999999999 is too large"),
            ("9999999999999999/s", "expected a limit of 0 to"),
            ("1/99999999999999999d", "is too long"),
        ] {
            let error = quota(text).unwrap_err();
            assert_eq!(error.value(), text);
            let message = error.to_string();
            assert!(message.contains(part), "{message}");
            assert!(message.matches("expected").count() == 1, "{message}");
        }
    }
}
