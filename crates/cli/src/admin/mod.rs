//! `tidegate admin`: what operators do to a running server, over its admin listener.

mod changes;
pub(crate) mod client;
mod subject;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate::Span;
use tidegate_wire::admin::{AmendmentStatus, PolicyStatus};

use self::changes::{ModeArgs, OverrideArgs};
use self::client::AdminClient;
use self::subject::{CallerArgs, RefundArgs};
use crate::client::{OperatorCredentials, TargetServer};
use crate::output::print;

/// The options of `admin`: the server, and what to do.
#[derive(Debug, clap::Args)]
pub(crate) struct AdminCommand {
    /// The server's admin address: http://host:port, https://host:port or unix:/path.
    /// TIDEGATE_ADMIN_TOKEN may hold a token for it
    #[arg(
        long,
        env = "TIDEGATE_ADMIN_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:9090",
        global = true
    )]
    admin: TargetServer,
    /// A certificate to present to a server that asks for one, with its chain (PEM)
    #[arg(
        long,
        env = "TIDEGATE_ADMIN_CERT",
        value_name = "FILE",
        requires = "cert_key",
        global = true
    )]
    cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, env = "TIDEGATE_ADMIN_KEY", value_name = "FILE", global = true)]
    cert_key: Option<PathBuf>,
    /// Print the server's JSON answer unchanged
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: AdminCliAction,
}

#[derive(Debug, clap::Subcommand)]
enum AdminCliAction {
    /// List the policies, and what each has decided
    Policies,
    /// Show what a caller has left, and the fingerprint of its key; takes nothing
    Peek(CallerArgs),
    /// Forget what was counted for a caller, who then has the full quota again
    Reset(CallerArgs),
    /// Give back units that were taken from a caller
    Refund(RefundArgs),
    /// List the overrides and modes that were set at run time, with the time that they have left
    Overrides,
    /// Give one key other limits for a while, on all instances
    Override(OverrideArgs),
    /// Enforce, watch or switch off a policy for a while, on all instances
    Mode(ModeArgs),
    /// Read the configuration and the files that it names again, now
    Reload,
}

impl AdminCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let credentials = OperatorCredentials {
            token: client::token_from_environment(),
            identity: self.cert.zip(self.cert_key),
        };
        let client = AdminClient::new(self.admin, credentials)?;
        let (text, shown) = self.action.perform(&client)?;
        print(&if self.json { text + "\n" } else { shown })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl AdminCliAction {
    /// Performs it, and returns the answer as it came and in words.
    fn perform(&self, client: &AdminClient) -> anyhow::Result<(String, String)> {
        let (text, shown): (String, fn(&Value) -> String) = match self {
            Self::Policies => (client.get("/policies")?, policies_text),
            Self::Peek(caller) => (client.post("/peek", &caller.body()?)?, subject::peek_text),
            Self::Reset(caller) => {
                (client.post("/reset", &caller.body()?)?, subject::restored_text)
            }
            Self::Refund(refund) => {
                (client.post("/refund", &refund.body()?)?, subject::restored_text)
            }
            Self::Overrides => (client.get("/overrides")?, overrides_text),
            Self::Override(change) => (change.send(client)?, changes::set_or_removed_text),
            Self::Mode(change) => (change.send(client)?, changes::set_or_removed_text),
            Self::Reload => (client.post("/reload", &json!({}))?, reload_text),
        };
        let answer = client.parsed(&text)?;
        Ok((text, shown(&answer)))
    }
}

/// One line for each policy.
fn policies_text(answer: &Value) -> String {
    let policies: Vec<PolicyStatus> =
        serde_json::from_value(answer["policies"].clone()).unwrap_or_default();
    let mut rows =
        vec![["POLICY", "MODE", "KEY", "LIMITS", "ALLOWED", "DENIED"].map(str::to_owned)];
    rows.extend(policies.into_iter().map(|policy| {
        [
            policy.name,
            policy.mode,
            policy.key.join(", "),
            policy.limits.join(", "),
            policy.allowed.to_string(),
            (policy.denied + policy.shadow_denied).to_string(),
        ]
    }));
    let mut text = table(&rows);
    if let Some(omitted @ 1..) = answer["omitted"].as_u64() {
        let _ = writeln!(text, "and {omitted} more");
    }
    text
}

/// One line for each change.
fn overrides_text(answer: &Value) -> String {
    let changes: Vec<AmendmentStatus> =
        serde_json::from_value(answer["overrides"].clone()).unwrap_or_default();
    if changes.is_empty() {
        return "none\n".to_owned();
    }
    let mut rows = vec![["POLICY", "KEY", "SET TO", "ENDS IN", ""].map(str::to_owned)];
    rows.extend(changes.into_iter().map(|change| {
        [
            change.policy,
            change.key.unwrap_or_else(|| "(all)".to_owned()),
            change.mode.unwrap_or_else(|| change.limits.join(", ")),
            Span::from_secs(change.expires_in_secs).roughly().to_string(),
            change.problem.map(|problem| format!("not in effect: {problem}")).unwrap_or_default(),
        ]
    }));
    table(&rows)
}

fn reload_text(answer: &Value) -> String {
    let files = answer["read"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut text: String = files.map(|file| format!("read {}\n", printable(file))).collect();
    text += match answer["changed"].as_bool() {
        Some(true) => "changed: the new configuration is in effect\n",
        Some(false) => "nothing has changed\n",
        None => "requested; the log says what comes of it\n",
    };
    text
}

/// Columns that are as wide as their widest cell.
fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let rows: Vec<[String; COLUMNS]> =
        rows.iter().map(|row| row.clone().map(|cell| printable(&cell))).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().enumerate();
        let padded = cells.map(|(column, cell)| {
            format!("{cell:width$}", width = width(column).unwrap_or_default())
        });
        let line = padded.collect::<Vec<_>>().join("  ");
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Without control characters, which could be escape sequences that a terminal executes.
fn printable(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_nothing_moves_the_cursor() {
        let rows =
            [["a", "long", ""], ["\u{1b}[2Jname", "b", "c"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "a        long\n[2Jname  b     c\n");
    }

    #[test]
    fn a_reload_says_what_was_read() {
        let answer = json!({ "read": ["limits.yaml"], "changed": false });
        assert_eq!(reload_text(&answer), "read limits.yaml\nnothing has changed\n");
        assert_eq!(reload_text(&json!({})), "requested; the log says what comes of it\n");
    }
}
