//! Reads the answers of a server.

use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{RemoteDecision, RemoteError, RemoteLimit};

/// The members of a decision. Those that a later server adds are ignored.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct DecisionAnswer {
    pub(super) allowed: bool,
    pub(super) policy: Option<String>,
    pub(super) reason: String,
    pub(super) limit: Option<u64>,
    pub(super) remaining: Option<u64>,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) reset_after_ms: Option<u64>,
    pub(super) source: String,
    #[serde(default)]
    pub(super) limits: Vec<RemoteLimit>,
}

/// The results of a batch.
#[derive(Debug, Deserialize)]
pub(super) struct BatchAnswer {
    pub(super) results: Vec<ItemAnswer>,
}

/// One result of a batch: a decision, or what is wrong with the check.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ItemAnswer {
    Decided(DecisionAnswer),
    Refused(ProblemAnswer),
}

/// A problem document.
#[derive(Debug, Deserialize)]
pub(super) struct ProblemAnswer {
    status: u16,
    detail: String,
}

impl ItemAnswer {
    pub(super) fn into_result(self) -> Result<RemoteDecision, RemoteError> {
        match self {
            Self::Decided(answer) => Ok(RemoteDecision::of(answer)),
            Self::Refused(problem) => Err(problem.into_error()),
        }
    }
}

impl ProblemAnswer {
    fn into_error(self) -> RemoteError {
        RemoteError::Refused { status: self.status, detail: self.detail }
    }
}

/// The decision in an answer. A denial is a decision too, with a status of its own.
pub(super) fn decision(status: StatusCode, body: &[u8]) -> Result<RemoteDecision, RemoteError> {
    match serde_json::from_slice(body) {
        Ok(answer) => Ok(RemoteDecision::of(answer)),
        Err(_) => Err(refusal(status, body)),
    }
}

/// Why there is no decision.
pub(super) fn refusal(status: StatusCode, body: &[u8]) -> RemoteError {
    match serde_json::from_slice::<ProblemAnswer>(body) {
        Ok(problem) => problem.into_error(),
        Err(_) => RemoteError::Answer(format!("the answer was {status}, and not a decision")),
    }
}

pub(super) fn read<T: DeserializeOwned>(status: StatusCode, body: &[u8]) -> Result<T, RemoteError> {
    let unread = |error| RemoteError::Answer(format!("the answer was {status}: {error}"));
    serde_json::from_slice(body).map_err(unread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_a_decision_and_a_problem_is_not() {
        let denied = br#"{"type":"x","title":"Too Many Requests","status":429,"detail":"d",
            "violated-policies":["a"],"allowed":false,"policy":"a","reason":"limit_exceeded","limit":1,
            "remaining":0,"retry_after_ms":9000,"reset_after_ms":9000,"source":"store","limits":[],"new":1}"#;
        let decision = decision(StatusCode::TOO_MANY_REQUESTS, denied).unwrap();
        assert!(!decision.is_allowed());
        assert_eq!(decision.retry_after(), Some(std::time::Duration::from_secs(9)));
        let problem =
            br#"{"type":"about:blank","title":"Not Found","status":404,"detail":"no policy"}"#;
        let error = self::decision(StatusCode::NOT_FOUND, problem).unwrap_err();
        assert_eq!(error.to_string(), "the server refused the request with 404: no policy");
        let error = self::decision(StatusCode::BAD_GATEWAY, b"<html>").unwrap_err();
        assert!(error.to_string().contains("502"), "{error}");
    }
}
