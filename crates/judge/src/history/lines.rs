//! Histories as lines of JSON.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use super::{CallHistory, CallVerdict, JudgedCall, StatedWait};

/// A call as a line of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryLine {
    key: String,
    #[serde(default = "one")]
    cost: u64,
    sent: i64,
    received: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allowed: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after: Option<f64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    instance: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

const fn one() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(instance: &u32) -> bool {
    *instance == 0
}

/// A history that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// A line is not a call.
    #[error("line {line}: {problem}")]
    Malformed {
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

impl HistoryLine {
    fn call(self) -> Result<(String, JudgedCall), String> {
        if self.received < self.sent {
            return Err("received before it was sent".to_owned());
        }
        if self.sent < 0 || self.received > LATEST || self.cost > tidegate_core::MAX_COUNT {
            return Err("a time or a cost that is out of range".to_owned());
        }
        let verdict = match (self.allowed, self.error) {
            (_, Some(error)) => CallVerdict::Failed(error.into()),
            (Some(true), None) => CallVerdict::Admitted,
            (Some(false), None) => CallVerdict::Denied,
            (None, None) => return Err("neither `allowed` nor `error`".to_owned()),
        };
        let call = JudgedCall {
            sent: self.sent,
            received: self.received,
            cost: self.cost,
            verdict,
            remaining: self.remaining,
            retry_after: self.retry_after.and_then(|seconds| StatedWait::of(seconds, SECOND)),
            instance: self.instance,
        };
        Ok((self.key, call))
    }

    #[allow(clippy::float_arithmetic, reason = "seconds, for people")]
    fn of(key: &str, call: &JudgedCall) -> Self {
        let (allowed, error) = match &call.verdict {
            CallVerdict::Admitted => (Some(true), None),
            CallVerdict::Denied => (Some(false), None),
            CallVerdict::Failed(error) => (None, Some(error.to_string())),
        };
        Self {
            key: key.to_owned(),
            cost: call.cost,
            sent: call.sent,
            received: call.received,
            allowed,
            remaining: call.remaining,
            retry_after: call.retry_after.map(|wait| wait.micros as f64 / SECOND as f64),
            instance: call.instance,
            error,
        }
    }
}

impl CallHistory {
    /// Reads lines such as
    /// `{"key": "a", "cost": 1, "sent": 17, "received": 19, "allowed": true, "remaining": 4}`.
    ///
    /// # Errors
    ///
    /// [`HistoryError`], with the first line that is not a call.
    pub fn read(input: impl BufRead) -> Result<Self, HistoryError> {
        let mut history = Self::default();
        for (index, line) in input.lines().enumerate() {
            let text = line?;
            if text.trim().is_empty() {
                continue;
            }
            let malformed = |problem| HistoryError::Malformed { line: index + 1, problem };
            let line: HistoryLine =
                serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
            let (key, call) = line.call().map_err(malformed)?;
            history.push(&key, call);
        }
        Ok(history)
    }
}

/// Writes calls as lines that [`CallHistory::read`] reads.
#[derive(Debug)]
pub struct HistoryRecorder<W>(W);

impl<W: Write> HistoryRecorder<W> {
    /// Writes to `output`.
    pub const fn new(output: W) -> Self {
        Self(output)
    }

    /// Writes all calls.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn record(&mut self, history: &CallHistory) -> io::Result<()> {
        for (key, call) in history.calls() {
            serde_json::to_writer(&mut self.0, &HistoryLine::of(key, call))?;
            self.0.write_all(b"\n")?;
        }
        self.0.flush()
    }
}

const SECOND: i64 = 1_000_000;
/// 2^53: beyond it, neither clocks nor JSON have microseconds.
const LATEST: i64 = 1 << 53;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_back() {
        let lines = [
            r#"{"key":"a","cost":2,"sent":5,"received":9,"allowed":true,"remaining":4}"#,
            r#"{"key":"a","cost":1,"sent":7,"received":9,"allowed":false,"retry_after":1.5}"#,
            r#"{"key":"b","cost":1,"sent":7,"received":9,"instance":1,"error":"refused"}"#,
        ];
        let text = lines.join("\n") + "\n";
        let history = CallHistory::read(text.as_bytes()).unwrap();
        let mut written = Vec::new();
        HistoryRecorder::new(&mut written).record(&history).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), text);
        let calls: Vec<_> = history.calls().map(|(_, call)| call.clone()).collect();
        assert_eq!(calls[1].retry_after, Some(StatedWait { micros: 1_500_000, rounding: 1_000 }));
        assert!(calls[0].is_admitted() && calls[1].is_denied());
    }

    #[test]
    fn a_line_that_is_not_a_call_is_named() {
        for (text, problem) in [
            ("{}", "line 1: missing field `key`"),
            (r#"{"key":"a","sent":9,"received":5,"allowed":true}"#, "received before"),
            (r#"{"key":"a","sent":1,"received":5}"#, "neither `allowed` nor `error`"),
            (r#"{"key":"a","sent":-1,"received":5,"allowed":true}"#, "out of range"),
            ("\n[1]", "line 2:"),
        ] {
            let error = CallHistory::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
