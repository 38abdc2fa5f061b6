//! `POST /v1/check/batch`: many questions, and an answer to each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{CheckRequest, CheckResponse, Problem, Refused};

/// Many checks at once. Each is decided for itself, in this order; one that makes no sense does not
/// keep the others from being decided.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest<'a> {
    /// The checks. Read one by one, so that one that is wrong is the only one that is refused.
    #[serde(borrow)]
    #[schemars(with = "Vec<CheckRequest<'a>>", length(max = BatchRequest::MAX))]
    pub checks: Vec<&'a RawValue>,
}

impl BatchRequest<'_> {
    /// The most checks.
    pub const MAX: usize = 256;
}

/// The answers, one for each check and in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BatchResponse<'a> {
    /// A decision each, or what is wrong with the check.
    pub results: Vec<BatchResult<'a>>,
}

/// What became of one check of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum BatchResult<'a> {
    /// It was decided.
    Decided(CheckResponse<'a>),
    /// It makes no sense; `member` says where, as in `checks[3].cost`.
    Refused(Problem<'a, Refused<'a>>),
}
