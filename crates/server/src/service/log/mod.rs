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

/// Logs an event for programs only: for people, something else says it, such as the startup message.
pub fn emit_for_programs(event: &str, message: &str, fields: &[(&str, &str)]) {
    if FORMAT.get() == Some(&LogFormat::Json) {
        emit(LogLevel::Info, event, message, fields);
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
    let time = now.rfc3339();
    let known = [("time", &*time), ("level", level), ("event", event), ("message", message)];
    for (name, value) in known.iter().chain(fields) {
        object.insert((*name).to_owned(), Value::from(*value));
    }
    format!("{}\n", Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

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
