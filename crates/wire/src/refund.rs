//! `POST /v1/refund`: gives back units that were taken and not used.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{JsonAttributes, JsonText, count};

/// Gives back units that a check has taken, in the same two forms as a check. No limit ends up with
/// more units than it has when none are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = example())]
pub struct RefundRequest<'a> {
    /// The policy's name.
    #[serde(borrow)]
    #[schemars(with = "Option<String>")]
    pub policy: Option<JsonText<'a>>,
    /// The caller: the value of the policy's only key attribute, at most 4096 bytes.
    #[serde(borrow)]
    #[schemars(with = "Option<String>")]
    pub key: Option<JsonText<'a>>,
    /// The attributes of the request: for the policy that is named, otherwise for all policies that
    /// applied.
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
