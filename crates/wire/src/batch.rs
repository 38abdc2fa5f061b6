//! `POST /v1/check/batch`: many checks in one request, and a result for each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{CheckRequest, CheckResponse, ProblemDetails, RefusalMembers};

/// Many checks in one request. Each is decided on its own, in this order; an invalid check does not
/// affect the others.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest<'a> {
    /// The checks. The result of an item that is not a valid check is a problem.
    #[serde(borrow)]
    #[schemars(with = "Vec<BatchCheckShape<'a>>", length(max = BatchRequest::MAX))]
    pub checks: Vec<&'a RawValue>,
}

/// A check. Items are parsed one by one, so an invalid item does not affect the others.
#[derive(JsonSchema)]
#[schemars(inline, untagged)]
#[allow(dead_code, reason = "describes a shape")]
enum BatchCheckShape<'a> {
    Check(CheckRequest<'a>),
    Anything(serde_json::Value),
}

impl BatchRequest<'_> {
    /// The most checks.
    pub const MAX: usize = 256;
}

/// The results, one for each check and in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BatchResponse<'a> {
    /// For each check its decision, or what is wrong with the check.
    pub results: Vec<BatchResult<'a>>,
}

/// The result of one check of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum BatchResult<'a> {
    /// The decision.
    Decided(CheckResponse<'a>),
    /// The check is invalid; `member` names the faulty member, such as `checks[3].cost`.
    Refused(ProblemDetails<'a, RefusalMembers<'a>>),
}
