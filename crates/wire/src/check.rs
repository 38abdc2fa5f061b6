//! `POST /v1/check`: the request and the response.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{JsonAttributes, JsonText, count};

/// May this happen? Either one policy decides, given by name, or all policies that match the
/// attributes.
///
/// `null` is the same as absent, because many clients write absent members that way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = example())]
pub struct CheckRequest<'a> {
    /// The policy's name.
    #[serde(borrow)]
    #[schemars(with = "Option<String>")]
    pub policy: Option<JsonText<'a>>,
    /// The caller: the value of the policy's only key attribute, at most 4096 bytes.
    #[serde(borrow)]
    #[schemars(with = "Option<String>")]
    pub key: Option<JsonText<'a>>,
    /// The attributes of the request: for the policy that is named, otherwise for all policies that
    /// apply.
    #[serde(borrow)]
    pub attributes: Option<JsonAttributes<'a>>,
    /// Units to take. Defaults to one; zero is a peek.
    #[serde(default, deserialize_with = "count::read")]
    #[schemars(range(max = 1_000_000_000_000_000_u64))]
    pub cost: Option<u64>,
}

/// The decision. The numbers at the top level are from the tightest limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckResponse<'a> {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The policy of the tightest limit; if no limit applies, a policy that sets the request
    /// `unlimited`, or null.
    pub policy: Option<&'a str>,
    /// Why: the request is within the limits, a limit is exceeded for now, the cost is above what a
    /// limit ever allows, an earlier denial blocks the caller, no policy applies to the request, or
    /// the store is unavailable.
    #[schemars(extend("enum" = REASONS))]
    pub reason: &'a str,
    /// The units that the limit has when none are used.
    pub limit: Option<u64>,
    /// The units that are left.
    pub remaining: Option<u64>,
    /// Milliseconds until a retry can succeed. Null if the request is allowed, or if no retry can
    /// ever succeed.
    pub retry_after_ms: Option<u64>,
    /// Milliseconds until all units of the limit are available again.
    pub reset_after_ms: Option<u64>,
    /// What decided: the store, a cached denial by the store that still holds, a lease of a part of
    /// the quota, the fallback for an unavailable store, or nothing because no limit applies.
    #[schemars(extend("enum" = SOURCES))]
    pub source: &'a str,
    /// The status of each limit.
    pub limits: Vec<LimitStatus<'a>>,
}

/// The status of one limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LimitStatus<'a> {
    /// The policy it belongs to.
    pub policy: &'a str,
    /// The algorithm.
    pub algorithm: &'a str,
    /// The units that it has when none are used.
    pub limit: u64,
    /// The span it counts over, in milliseconds.
    pub window_ms: u64,
    /// Whether the request fits.
    pub allowed: bool,
    /// The units that are left.
    pub remaining: u64,
    /// Milliseconds until the request would fit. Null if it fits, or if it can never fit.
    pub retry_after_ms: Option<u64>,
    /// Milliseconds until all units are available again.
    pub reset_after_ms: u64,
    /// Whether it is enforced (`enforce`) or only observed (`shadow`).
    #[schemars(extend("enum" = ["enforce", "shadow"]))]
    pub mode: &'a str,
}

fn example() -> serde_json::Value {
    json!({ "policy": "demo", "key": "alice", "cost": 1 })
}

/// The names of reasons.
const REASONS: [&str; 6] = [
    "within_limit",
    "limit_exceeded",
    "cost_exceeds_limit",
    "blocked",
    "no_policy",
    "store_unavailable",
];

/// The names of sources.
const SOURCES: [&str; 5] = ["store", "deny_cache", "lease", "fallback", "none"];

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn request(body: &str) -> Result<CheckRequest<'_>, serde_json::Error> {
        serde_json::from_str(body)
    }

    #[test]
    fn text_is_borrowed_wherever_it_stands() {
        let is_borrowed = |text: &JsonText<'_>| matches!(text.0, Cow::Borrowed(_));
        let plain = request(r#"{"policy": "p", "attributes": {"user": "42"}}"#).unwrap();
        assert!(is_borrowed(&plain.policy.unwrap()));
        let (name, value) = plain.attributes.unwrap().0.into_iter().next().unwrap();
        assert!(is_borrowed(&name) && is_borrowed(&value.unwrap()));
        assert_eq!(&*request(r#"{"key": "a\nb"}"#).unwrap().key.unwrap(), "a\nb");
    }

    #[test]
    fn null_means_absent() {
        let body = r#"{"policy": null, "key": null, "attributes": null, "cost": null}"#;
        assert_eq!(request(body).unwrap(), CheckRequest::default());
        assert!(request(r#"{"attributes": {"user": null}}"#).is_ok());
    }

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        for (text, cost) in
            [("3", 3), ("3.0", 3), ("3e2", 300), ("-0.0", 0), ("1e15", 1_000_000_000_000_000)]
        {
            assert_eq!(request(&format!(r#"{{"cost": {text}}}"#)).unwrap().cost, Some(cost));
        }
        for text in ["-1", "0.5", "1e17", "1e300", "-1.0", "\"1\"", "true"] {
            assert!(request(&format!(r#"{{"cost": {text}}}"#)).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_request_is_refused() {
        for body in [r#"{"kye": "a"}"#, r#"{"key": 1}"#, r#"{"cost": -1}"#, r#"{"cost": 1.5}"#] {
            assert!(request(body).is_err(), "{body}");
        }
    }
}
