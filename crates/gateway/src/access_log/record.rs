//! One record of the access log: the members of its JSON object, and the format of its time.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate::{Decision, Timestamp};

use super::AccessLog;
use crate::upstream::UpstreamFailure;

/// The log record of one request. It is written on drop, when the response has been sent or aborted.
#[derive(Debug)]
pub(crate) struct AccessLogRecord {
    log: Arc<AccessLog>,
    begun: Timestamp,
    fields: Map<String, Value>,
    bytes: u64,
}

/// The parts of a request that are logged.
#[derive(Debug)]
pub(crate) struct AccessLogRequest<'r> {
    pub(crate) ip: Option<&'r str>,
    pub(crate) method: &'r str,
    pub(crate) host: Option<&'r str>,
    pub(crate) path: &'r str,
    pub(crate) user_agent: Option<&'r str>,
}

impl AccessLogRecord {
    pub(super) fn new(log: Arc<AccessLog>) -> Self {
        Self { begun: log.now(), log, fields: Map::new(), bytes: 0 }
    }

    pub(crate) fn set_request(&mut self, request: &AccessLogRequest<'_>) {
        let ip = request.ip.map(|ip| self.log.display_key(ip));
        let members = [
            ("ip", json!(ip)),
            ("method", json!(request.method)),
            ("host", json!(request.host)),
            ("path", json!(request.path)),
            ("user_agent", json!(request.user_agent)),
        ];
        self.fields.extend(members.map(|(name, value)| (name.to_owned(), value)));
    }

    /// Adds an attribute that a policy uses.
    pub(crate) fn add_attribute(&mut self, name: &str, value: &[u8]) {
        let value = self.log.display_key(&String::from_utf8_lossy(value));
        let attributes = self.fields.entry("attributes").or_insert_with(|| json!({}));
        if let Value::Object(attributes) = attributes {
            attributes.insert(name.to_owned(), json!(value));
        }
    }

    pub(crate) fn set_decision(&mut self, decision: &Decision, policy: Option<&str>) {
        self.insert("allowed", json!(decision.is_allowed()));
        self.insert("policy", json!(policy));
    }

    pub(crate) fn set_route(&mut self, route: &str) {
        self.insert("route", json!(route));
    }

    pub(crate) fn set_upstream(&mut self, upstream: &str) {
        self.insert("upstream", json!(upstream));
    }

    pub(crate) fn set_status(&mut self, status: u16) {
        self.insert("status", json!(status));
    }

    /// Counts bytes of the response body.
    pub(crate) fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Records why the response is missing or incomplete.
    pub(crate) fn set_error(&mut self, failure: &UpstreamFailure) {
        self.insert("error", json!(failure.to_string()));
    }

    fn insert(&mut self, name: &str, value: Value) {
        self.fields.insert(name.to_owned(), value);
    }
}

impl Drop for AccessLogRecord {
    fn drop(&mut self) {
        let millis = self.log.now().since(self.begun).as_micros() / 1_000;
        let mut line = Map::new();
        line.insert("time".to_owned(), json!(rfc3339(self.begun)));
        line.append(&mut self.fields);
        line.insert("bytes".to_owned(), json!(self.bytes));
        line.insert("ms".to_owned(), json!(millis));
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        self.log.write(text);
    }
}

/// Formats a time like `2024-01-01T12:00:00.000Z`.
fn rfc3339(time: Timestamp) -> String {
    let millis = time.as_micros() / 1_000;
    let (days, of_day) = (millis / 86_400_000, millis % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Year, month and day of a day since 1970. Counts years from March, so that the leap day comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_704_110_400, "2024-01-01T12:00:00.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(Timestamp::from_secs(seconds)), expected);
        }
        assert_eq!(rfc3339(Timestamp::from_micros(1_234_567)), "1970-01-01T00:00:01.234Z");
    }
}
