//! `POST /v1/check/batch`: many questions, and an answer to each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{CheckRequest, CheckResponse, ProblemDetails, RefusalMembers};

/// Many checks at once. Each is decided on its own, in this order; an invalid one does not keep the
/// others from being decided.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest<'a> {
    /// The checks. Anything that is not a check is answered with a problem of its own, in its
    /// place.
    #[serde(borrow)]
    #[schemars(with = "Vec<BatchCheckShape<'a>>", length(max = BatchRequest::MAX))]
    pub checks: Vec<&'a RawValue>,
}

/// How an item is described: each is read on its own, so that an invalid one is the only one that
/// is refused.
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

/// The answers, one for each check and in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BatchResponse<'a> {
    /// A decision for each check, or what is wrong with it.
    pub results: Vec<BatchResult<'a>>,
}

/// What became of one check of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum BatchResult<'a> {
    /// It was decided.
    Decided(CheckResponse<'a>),
    /// It is invalid; `member` says where, as in `checks[3].cost`.
    Refused(ProblemDetails<'a, RefusalMembers<'a>>),
}
