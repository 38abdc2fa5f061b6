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
    /// The checks. They are parsed one by one: the result of an item that is not a valid check is a
    /// problem, and the others are decided.
    #[serde(borrow)]
    #[schemars(with = "Vec<CheckRequest<'a>>", length(max = BatchRequest::MAX))]
    pub checks: Vec<&'a RawValue>,
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
