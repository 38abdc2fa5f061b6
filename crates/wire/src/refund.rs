//! `POST /v1/refund`: gives back what was taken and then not used.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::check::one_form_or_the_other;
use crate::{JsonAttributes, JsonText, count};

/// Gives back what a check has taken, in the same two forms. Never more than the limits hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = one_form_or_the_other, example = example())]
pub struct RefundRequest<'a> {
    /// The policy's name.
    #[serde(borrow)]
    #[schemars(with = "Option<String>")]
    pub policy: Option<JsonText<'a>>,
    /// The caller: the value of the policy's one key attribute, at most 4096 bytes.
    #[serde(borrow)]
    #[schemars(with = "Option<String>")]
    pub key: Option<JsonText<'a>>,
    /// What was known about the request: for all policies that applied to it, or for the one that
    /// is named.
    #[serde(borrow)]
    pub attributes: Option<JsonAttributes<'a>>,
    /// Units to give back. Defaults to one.
    #[serde(default, deserialize_with = "count::read")]
    #[schemars(range(max = 1_000_000_000_000_000_u64))]
    pub amount: Option<u64>,
}

fn example() -> serde_json::Value {
    serde_json::json!({ "policy": "demo", "key": "alice", "amount": 1 })
}
