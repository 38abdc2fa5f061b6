//! Writes responses as JSON, byte for byte as `serde_json` does but in a third of the time: member
//! names need no escape check. Decisions are most of what a server writes.

use crate::{CheckResponse, LimitStatus, ProblemDetails, QuotaExceeded};

impl CheckResponse<'_> {
    /// Appends the response as JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.write_members(out);
        out.push(b'}');
    }

    fn write_members(&self, out: &mut Vec<u8>) {
        raw(out, r#""allowed":"#);
        boolean(out, self.allowed);
        raw(out, r#","policy":"#);
        match self.policy {
            Some(policy) => text(out, policy),
            None => raw(out, NULL),
        }
        raw(out, r#","reason":"#);
        text(out, self.reason);
        raw(out, r#","limit":"#);
        optional(out, self.limit);
        raw(out, r#","remaining":"#);
        optional(out, self.remaining);
        raw(out, r#","retry_after_ms":"#);
        optional(out, self.retry_after_ms);
        raw(out, r#","reset_after_ms":"#);
        optional(out, self.reset_after_ms);
        raw(out, r#","source":"#);
        text(out, self.source);
        raw(out, r#","limits":"#);
        list(out, &self.limits, |out, limit| limit.write(out));
    }
}

impl LimitStatus<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        raw(out, r#"{"policy":"#);
        text(out, self.policy);
        raw(out, r#","algorithm":"#);
        text(out, self.algorithm);
        raw(out, r#","limit":"#);
        number(out, self.limit);
        raw(out, r#","window_ms":"#);
        number(out, self.window_ms);
        raw(out, r#","allowed":"#);
        boolean(out, self.allowed);
        raw(out, r#","remaining":"#);
        number(out, self.remaining);
        raw(out, r#","retry_after_ms":"#);
        optional(out, self.retry_after_ms);
        raw(out, r#","reset_after_ms":"#);
        number(out, self.reset_after_ms);
        raw(out, r#","mode":"#);
        text(out, self.mode);
        out.push(b'}');
    }
}

impl ProblemDetails<'_, QuotaExceeded<'_>> {
    /// Appends the problem as JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        raw(out, r#"{"type":"#);
        text(out, self.kind);
        raw(out, r#","title":"#);
        text(out, self.title);
        raw(out, r#","status":"#);
        number(out, self.status.into());
        raw(out, r#","detail":"#);
        text(out, self.detail);
        raw(out, r#","violated-policies":"#);
        list(out, &self.members.violated_policies, |out, policy| text(out, policy));
        out.push(b',');
        self.members.answer.write_members(out);
        out.push(b'}');
    }
}

fn raw(out: &mut Vec<u8>, json: &str) {
    out.extend_from_slice(json.as_bytes());
}

fn boolean(out: &mut Vec<u8>, value: bool) {
    raw(out, if value { "true" } else { "false" });
}

fn number(out: &mut Vec<u8>, value: u64) {
    raw(out, itoa::Buffer::new().format(value));
}

fn optional(out: &mut Vec<u8>, value: Option<u64>) {
    match value {
        Some(value) => number(out, value),
        None => raw(out, NULL),
    }
}

fn text(out: &mut Vec<u8>, value: &str) {
    let is_plain = |byte: u8| (byte >= b' ') & (byte != b'"') & (byte != b'\\');
    // Never stops early, so that the compiler can check many bytes per instruction.
    if value.bytes().fold(true, |all, byte| all & is_plain(byte)) {
        out.push(b'"');
        raw(out, value);
        out.push(b'"');
    } else {
        // Any text can be written as JSON, and writing to memory cannot fail.
        let _ = serde_json::to_writer(out, value);
    }
}

fn list<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

const NULL: &str = "null";

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["api", "a\"b\\c", "tab\tand é", "\u{0}\u{7f}"];

    fn limit(policy: &str, allowed: bool) -> LimitStatus<'_> {
        LimitStatus {
            policy,
            algorithm: "token-bucket",
            limit: 10,
            window_ms: 60_000,
            allowed,
            remaining: u64::MAX,
            retry_after_ms: (!allowed).then_some(7),
            reset_after_ms: 0,
            mode: "shadow",
        }
    }

    /// Responses with all members, and one with as few as possible.
    fn answers() -> Vec<CheckResponse<'static>> {
        let full = NAMES.map(|name| CheckResponse {
            allowed: false,
            policy: Some(name),
            reason: "limit_exceeded",
            limit: Some(10),
            remaining: Some(0),
            retry_after_ms: Some(1_234),
            reset_after_ms: Some(u64::MAX),
            source: "deny_cache",
            limits: vec![limit(name, true), limit(name, false)],
        });
        let empty = CheckResponse {
            allowed: true,
            policy: None,
            reason: "no_policy",
            limit: None,
            remaining: None,
            retry_after_ms: None,
            reset_after_ms: None,
            source: "none",
            limits: Vec::new(),
        };
        full.into_iter().chain([empty]).collect()
    }

    #[test]
    fn answers_are_written_as_serde_writes_them() {
        for answer in answers() {
            let mut out = b"behind ".to_vec();
            answer.write(&mut out);
            let expected = format!("behind {}", serde_json::to_string(&answer).unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn denials_are_written_as_serde_writes_them() {
        for (answer, detail) in answers().into_iter().zip(NAMES.iter().cycle()) {
            let problem = ProblemDetails {
                kind: ProblemDetails::QUOTA_EXCEEDED,
                title: "Too Many Requests",
                status: 429,
                detail,
                members: QuotaExceeded { violated_policies: NAMES[..2].to_vec(), answer },
            };
            let mut out = Vec::new();
            problem.write(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&problem).unwrap());
        }
    }
}
