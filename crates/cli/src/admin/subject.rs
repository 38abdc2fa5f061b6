//! Commands about a caller: peek, reset and refund.

use std::fmt::Write as _;

use anyhow::bail;
use serde_json::{Map, Value, json};

use super::printable;
use crate::check::{attribute, decision_text};
use crate::number;

/// Which caller it is about.
#[derive(Debug, clap::Args)]
pub(super) struct CallerArgs {
    /// The policy's name
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// The caller: the value of the policy's only key attribute; needs --policy
    #[arg(long, value_name = "TEXT", requires = "policy", conflicts_with = "attribute")]
    key: Option<String>,
    /// An attribute of the caller; repeat the flag for more. Without --policy, it is about all policies
    /// that apply
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = attribute)]
    attribute: Vec<(String, String)>,
}

impl CallerArgs {
    pub(super) fn body(&self) -> anyhow::Result<Value> {
        let mut body = Map::new();
        if let Some(policy) = &self.policy {
            body.insert("policy".to_owned(), policy.as_str().into());
        }
        match &self.key {
            Some(key) => {
                body.insert("key".to_owned(), key.as_str().into());
            }
            None if self.attribute.is_empty() => bail!(
                "no caller: expected --policy NAME and --key TEXT, or --attribute NAME=VALUE for \
                 each attribute"
            ),
            None => {
                let attributes = self.attribute.iter().cloned();
                let attributes: Map<_, _> =
                    attributes.map(|(name, value)| (name, value.into())).collect();
                body.insert("attributes".to_owned(), attributes.into());
            }
        }
        Ok(body.into())
    }
}

/// How much to give back to whom.
#[derive(Debug, clap::Args)]
pub(super) struct RefundArgs {
    #[command(flatten)]
    caller: CallerArgs,
    /// Units to give back
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = |text: &str| number::whole::<u64>(text, 1..=1_000_000_000_000_000))]
    amount: u64,
}

impl RefundArgs {
    pub(super) fn body(&self) -> anyhow::Result<Value> {
        let mut body = self.caller.body()?;
        body["amount"] = json!(self.amount);
        Ok(body)
    }
}

/// The decision that a check would get, and the fingerprints by which `top` and the log show the caller.
pub(super) fn peek_text(answer: &Value) -> String {
    let decision = &answer["decision"];
    let mut text = decision_text(decision, decision["allowed"].as_bool().unwrap_or_default());
    for (policy, mark) in answer["keys"].as_object().into_iter().flatten() {
        let mark = printable(mark.as_str().unwrap_or_default());
        let _ = writeln!(text, "  key of {}: {mark}", printable(policy));
    }
    text
}

pub(super) fn restored_text(answer: &Value) -> String {
    let policies: Vec<String> = answer["policies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(printable))
        .collect();
    match policies.is_empty() {
        true => "no policy counts this caller: nothing was done\n".to_owned(),
        false => format!("done, in {}\n", policies.join(", ")),
    }
}
