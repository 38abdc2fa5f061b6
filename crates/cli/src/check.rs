//! `tidegate check`: requests one decision from a running server.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use http::StatusCode;
use serde_json::{Map, Value, json};
use tidegate::Span;

use crate::client::{OperatorCredentials, ServerArgs, get, post};
use crate::number;
use crate::output::print;

/// The options of `check`: the request to decide, and the server that decides it.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckCommand {
    /// The policy's name; needs --key
    #[arg(long, value_name = "NAME", requires = "key", conflicts_with = "attribute")]
    policy: Option<String>,
    /// The caller: the value of the policy's only key attribute
    #[arg(long, value_name = "TEXT", requires = "policy")]
    key: Option<String>,
    /// An attribute of the request, instead of --policy and --key; repeat the flag for more
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = attribute)]
    attribute: Vec<(String, String)>,
    /// Units to take; 0 only looks and takes nothing
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = |text: &str| number::whole::<u64>(text, 0..=MOST_COST))]
    cost: u64,
    #[command(flatten)]
    to: ServerArgs,
    /// Print the server's JSON answer unchanged
    #[arg(long)]
    json: bool,
}

impl CheckCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.validate_caller()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start a runtime")?;
        let (server, credentials) = (&self.to.server, self.to.credentials());
        let exchange =
            runtime.block_on(post(server, "/v1/check", &credentials, self.request_body()));
        let (status, text) = exchange.with_context(|| format!("cannot reach {server}"))?;
        let answer: Value = serde_json::from_str(&text)
            .with_context(|| format!("{server} answered {status}, but not with JSON"))?;
        let Some(is_allowed) = answer["allowed"].as_bool() else {
            return Err(refusal_error(status, &answer));
        };
        let shown = match self.json {
            true => text + "\n",
            false if answer["reason"] == "no_policy" => {
                let hint = runtime.block_on(self.unused_attributes(&credentials));
                decision_text(&answer, is_allowed) + &hint.unwrap_or_default()
            }
            false => decision_text(&answer, is_allowed),
        };
        print(&shown)?;
        Ok(if is_allowed { ExitCode::SUCCESS } else { ExitCode::from(DENIED) })
    }

    /// Requires a caller: a policy and a key, or attributes with one value each.
    fn validate_caller(&self) -> anyhow::Result<()> {
        if self.policy.is_none() && self.attribute.is_empty() {
            bail!(
                "no caller: expected --policy NAME and --key TEXT, or --attribute \
                 NAME=VALUE for each attribute of the request"
            );
        }
        for (index, (name, _)) in self.attribute.iter().enumerate() {
            if self.attribute.iter().take(index).any(|(other, _)| other == name) {
                bail!("{name:?} is given twice: expected one value for each attribute");
            }
        }
        Ok(())
    }

    /// A hint for a request to which no policy applies: the attributes that the policies count by.
    /// `None` if the server does not say.
    async fn unused_attributes(&self, credentials: &OperatorCredentials) -> Option<String> {
        let (_, text) = get(&self.to.server, "/docs/example.json", credentials).await.ok()?;
        let example: Value = serde_json::from_str(&text).ok()?;
        let names: Vec<String> = example["counted_by"].as_array()?.iter().map(printable).collect();
        (!names.is_empty()).then(|| {
            format!(
                "  hint: is an attribute misspelt? The policies count by {}\n",
                names.join(", ")
            )
        })
    }

    fn request_body(&self) -> String {
        let mut body = json!({ "cost": self.cost });
        if let (Some(policy), Some(key)) = (&self.policy, &self.key) {
            body["policy"] = policy.as_str().into();
            body["key"] = key.as_str().into();
        } else {
            let attributes = self.attribute.iter().cloned();
            let attributes: Map<_, _> =
                attributes.map(|(name, value)| (name, value.into())).collect();
            body["attributes"] = attributes.into();
        }
        body.to_string()
    }
}

fn refusal_error(status: StatusCode, answer: &Value) -> anyhow::Error {
    match answer["detail"].as_str() {
        Some(detail) => anyhow!("{detail}"),
        None => anyhow!("the answer was {status} without a decision"),
    }
}

/// One line for the decision and one for each limit.
pub(crate) fn decision_text(answer: &Value, is_allowed: bool) -> String {
    let mut text = String::from(if is_allowed { "allowed" } else { "denied" });
    if answer["policy"].is_string() {
        let _ = write!(text, " by {}", printable(&answer["policy"]));
    }
    let _ = write!(text, ": {}", reason_text(&answer["reason"]));
    if let Some(wait) = answer["retry_after_ms"].as_u64() {
        let _ = write!(text, "; try again in {}", Span::from_millis(wait).roughly());
    }
    text.push('\n');
    for limit in answer["limits"].as_array().into_iter().flatten() {
        let number = |name: &str| limit[name].as_u64().unwrap_or_default();
        let _ = writeln!(
            text,
            "  {} {} over {}: {} of {} left, full again in {}{}",
            printable(&limit["policy"]),
            printable(&limit["algorithm"]),
            Span::from_millis(number("window_ms")),
            number("remaining"),
            number("limit"),
            Span::from_millis(number("reset_after_ms")).roughly(),
            if limit["mode"] == "shadow" { " (shadow)" } else { "" },
        );
    }
    text
}

fn reason_text(reason: &Value) -> String {
    match reason.as_str() {
        Some("within_limit") => "within the limit".to_owned(),
        Some("limit_exceeded") => "the limit is used up".to_owned(),
        Some("cost_exceeds_limit") => "the cost exceeds the limit".to_owned(),
        Some("blocked") => "blocked after an earlier denial".to_owned(),
        Some("no_policy") => "no policy applies".to_owned(),
        Some("store_unavailable") => "the store is unavailable".to_owned(),
        _ => printable(reason),
    }
}

fn printable(value: &Value) -> String {
    // Control characters could be escape sequences, which a terminal executes.
    let text = value.as_str().unwrap_or("?").replace('_', " ");
    text.chars().filter(|char| !char.is_control()).collect()
}

pub(crate) fn attribute(text: &str) -> anyhow::Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => bail!("expected name=value"),
    }
}

/// The most that a request can cost.
const MOST_COST: u64 = 1_000_000_000_000_000;

/// The exit code for a denied request.
const DENIED: u8 = 3;

pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  allowed
  2  error: the server could not be reached, or refused the request
  3  denied";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_are_shown_in_large_units() {
        let limit = json!({
            "policy": "login", "algorithm": "fixed-window", "limit": 5, "remaining": 0,
            "window_ms": 86_400_000, "reset_after_ms": 3_899_100, "mode": "enforce",
        });
        let answer = json!({
            "reason": "limit_exceeded", "policy": "login", "retry_after_ms": 3_899_100,
            "limits": [limit],
        });
        let text = decision_text(&answer, false);
        let lines = [
            "denied by login: the limit is used up; try again in 1h5m\n",
            "  login fixed-window over 1d: 0 of 5 left, full again in 1h5m\n",
        ];
        assert_eq!(text, lines.concat());
    }
}
