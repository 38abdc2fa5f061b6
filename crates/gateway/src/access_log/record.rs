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
        line.insert("time".to_owned(), json!(self.begun.rfc3339()));
        line.append(&mut self.fields);
        line.insert("bytes".to_owned(), json!(self.bytes));
        line.insert("ms".to_owned(), json!(millis));
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        self.log.write(text);
    }
}
