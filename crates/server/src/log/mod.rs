//! The server's log on standard error: one line per event, as text or as JSON.
//!
//! Events are rare: starts, reloads, the store lost and regained, operator actions. Requests are
//! counted, not logged, and no event contains a key in clear.

mod line_writer;
mod throttle;

use std::io::Write as _;
use std::str::FromStr;
use std::sync::OnceLock;

use serde_json::{Map, Value};
use tidegate::{Clock as _, SystemClock, Timestamp};

pub use self::line_writer::LineWriter;
pub use self::throttle::LogThrottle;

/// The format of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: one object per line, with `time`, `level`, `event` and `message`.
    Json,
}

/// The level of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// For information.
    Info,
    /// An operator should look at it.
    Warn,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("{other:?}: expected text or json")),
        }
    }
}

/// Sets the format. Only the first call counts; the default is text.
pub fn set_format(format: LogFormat) {
    let _ = FORMAT.set(format);
}

/// Logs an event. `event` is a stable name, `message` is for people.
///
/// ```
/// use tidegate_server::log::{self, LogLevel};
///
/// log::emit(LogLevel::Info, "reload", "limits.yaml: in effect", &[("file", "limits.yaml")]);
/// ```
pub fn emit(level: LogLevel, event: &str, message: &str, fields: &[(&str, &str)]) {
    let format = FORMAT.get().copied().unwrap_or_default();
    let line = match format {
        LogFormat::Text => as_text(message),
        LogFormat::Json => as_json(SystemClock::new().now(), level, event, message, fields),
    };
    if let Some(writer) = WRITER.get_or_init(writer) {
        writer.send(line.into_bytes());
    }
}

/// Waits until all [`LineWriter`]s have written their lines, before the process ends. At most a second:
/// there may be no reader.
pub fn finish() {
    line_writer::finish();
}

/// Writes on a thread of its own, because a full pipe must not stop the server. If the thread cannot be
/// started, the server runs without a log.
fn writer() -> Option<LineWriter> {
    let open = || Some(|lines: &[u8]| std::io::stderr().write_all(lines).unwrap_or_default());
    LineWriter::start("log", MAX_WAITING, open).ok()
}

static FORMAT: OnceLock<LogFormat> = OnceLock::new();
static WRITER: OnceLock<Option<LineWriter>> = OnceLock::new();
/// Bytes of lines that wait to be written. Beyond that, new lines are dropped.
const MAX_WAITING: usize = 1 << 20;

/// A message can have several lines, but no other control characters: it may quote a client.
fn as_text(message: &str) -> String {
    let mut line: String =
        message.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    line.push('\n');
    line
}

fn as_json(
    now: Timestamp,
    level: LogLevel,
    event: &str,
    message: &str,
    fields: &[(&str, &str)],
) -> String {
    let level = if level == LogLevel::Info { "info" } else { "warn" };
    let mut object = Map::new();
    let time = rfc3339(now);
    let known = [("time", &*time), ("level", level), ("event", event), ("message", message)];
    for (name, value) in known.iter().chain(fields) {
        object.insert((*name).to_owned(), Value::from(*value));
    }
    format!("{}\n", Value::Object(object))
}

/// `2026-11-16T02:03:04.567Z`.
fn rfc3339(now: Timestamp) -> String {
    let millis = now.as_micros() / 1_000;
    let (days, of_day) = (millis / 86_400_000, millis % 86_400_000);
    // Counts from March 1 of year 0: in years that begin in March, the leap day comes last.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (secs, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_208_000, "2024-02-29T12:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_102_444_800, "2100-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(Timestamp::from_secs(secs)), expected);
        }
    }

    #[test]
    fn a_line_is_one_line_and_escaped() {
        let fields = [("policy", "a\"b\n\u{1b}")];
        let now = Timestamp::from_micros(1_500);
        let line = as_json(now, LogLevel::Warn, "store", "lost\nagain", &fields);
        assert_eq!(line.matches('\n').count(), 1);
        let object: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(object["time"], "1970-01-01T00:00:00.001Z");
        assert_eq!(object["level"], "warn");
        assert_eq!(object["policy"], "a\"b\n\u{1b}");
        assert_eq!(as_text("a\u{1b}[2Jb\nc"), "a [2Jb\nc\n");
    }

    #[test]
    fn formats_have_names() {
        assert_eq!("json".parse(), Ok(LogFormat::Json));
        assert_eq!("text".parse(), Ok(LogFormat::Text));
        assert_eq!("xml".parse::<LogFormat>(), Err("\"xml\": expected text or json".to_owned()));
    }
}
