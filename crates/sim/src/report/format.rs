//! Formats numbers, times and untrusted text for people.

use tidegate::Timestamp;
use tidegate_core::CivilDate;

/// `1,234,567`.
///
/// ```
/// assert_eq!(tidegate_sim::report::count(1_234_567), "1,234,567");
/// ```
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 key`, `2,345 keys`.
///
/// ```
/// assert_eq!(tidegate_sim::report::counted(1, "key"), "1 key");
/// assert_eq!(tidegate_sim::report::counted(2_345, "key"), "2,345 keys");
/// ```
pub fn counted(number: u64, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {what}{ending}", count(number))
}

/// A share in percent, with two significant digits: `12.5 %`, `0.0031 %`.
///
/// ```
/// use tidegate_sim::report::share;
///
/// let shown = [0.0, 0.000_030_9, 0.063, 0.2, 1.0].map(share);
/// assert_eq!(shown, ["0 %", "0.0031 %", "6.3 %", "20 %", "100 %"]);
/// ```
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 {
        return "0 %".to_owned();
    }
    let decimals = (1.0 - percent.abs().log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{percent:.decimals$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

/// `2.00x`.
pub fn times(factor: f64) -> String {
    format!("{factor:.2}x")
}

/// Seconds the way people say them, in short: `350ms`, `61s`, `2m30s`, `2h`.
///
/// ```
/// use tidegate_sim::report::short_span;
///
/// let shown = [0.35, 59.0, 59.999_999, 61.0, 150.5, 7_200.0, 90_000.0].map(short_span);
/// assert_eq!(shown, ["350ms", "59s", "60s", "61s", "2m30.5s", "2h", "1d1h"]);
/// ```
pub fn short_span(seconds: f64) -> String {
    if seconds != 0.0 && seconds.abs() < 1.0 {
        return format!("{}ms", trimmed(seconds * 1e3));
    }
    if seconds.abs() < 120.0 {
        return format!("{}s", trimmed(seconds));
    }
    let units = [(86_400.0, "d", 3_600.0, "h"), (3_600.0, "h", 60.0, "m"), (60.0, "m", 1.0, "s")];
    for (large, large_name, small, small_name) in units {
        if seconds >= large {
            let rest = ((seconds % large) / small * 10.0).round() / 10.0;
            let whole = (seconds / large).floor();
            return match rest {
                0.0 => format!("{whole}{large_name}"),
                rest => format!("{whole}{large_name}{}{small_name}", trimmed(rest)),
            };
        }
    }
    format!("{seconds}s")
}

/// With one digit after the point, unless it is zero.
fn trimmed(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// A moment in UTC: `2025-01-31 13:05:09`.
///
/// ```
/// use tidegate::Timestamp;
///
/// let moment = Timestamp::from_secs(1_738_328_709);
/// assert_eq!(tidegate_sim::report::moment(moment), "2025-01-31 13:05:09");
/// ```
pub fn moment(at: Timestamp) -> String {
    let seconds = at.as_micros() / 1_000_000;
    let CivilDate { year, month, day } = CivilDate::of_day((seconds / 86_400).cast_signed());
    let second = seconds % 86_400;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Untrusted text, for a terminal or a page: without control characters, and not too long.
///
/// ```
/// use tidegate_sim::report::clip;
///
/// assert_eq!(clip("a\u{1b}[31mb", 20), "a\\u{1b}[31mb");
/// assert_eq!(clip("abcdefgh", 6), "abcde…");
/// ```
pub fn clip(text: &str, most: usize) -> String {
    let mut shown: String = text
        .chars()
        .take(most + 1)
        .flat_map(|char| {
            let is_hidden = char.is_control() || matches!(char, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            let escaped = is_hidden.then(|| char.escape_default());
            let plain = (!is_hidden).then_some(char);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect();
    if shown.chars().count() > most {
        shown = shown.chars().take(most.saturating_sub(1)).collect();
        shown.push('…');
    }
    shown
}

/// The ticks of an axis that ends at or above `most`: about `wanted` of them, at round numbers.
pub(super) fn ticks(most: f64, wanted: f64, steps: &[f64]) -> Vec<f64> {
    if !most.is_finite() || most <= 0.0 {
        return vec![0.0, 1.0];
    }
    let raw = most / wanted;
    let found = steps.iter().copied().find(|step| *step >= raw);
    let step = found.unwrap_or_else(|| round_step(raw));
    let count = (most / step).ceil().min(50.0) as usize;
    (0..=count).map(|index| index as f64 * step).collect()
}

/// 1, 2 or 5 times a power of ten.
fn round_step(raw: f64) -> f64 {
    let power = 10_f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .iter()
        .map(|factor| factor * power)
        .find(|step| *step >= raw)
        .unwrap_or(raw)
}

/// The first of the steps below.
pub(super) const SPLIT_SECONDS: [f64; 3] = [0.1, 0.2, 0.5];

/// Time steps that people count in, in seconds.
pub(super) const TIME_STEPS: &[f64] = &[
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    900.0,
    1_800.0,
    3_600.0,
    7_200.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
];
