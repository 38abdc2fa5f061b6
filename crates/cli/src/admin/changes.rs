//! Changes for a while: overrides and modes.

use anyhow::bail;
use serde_json::{Value, json};
use tidegate::Span;

use super::client::AdminClient;
use super::printable;

/// An override to set or to remove.
#[derive(Debug, clap::Args)]
pub(super) struct OverrideArgs {
    /// The policy's name
    #[arg(long, value_name = "NAME")]
    policy: String,
    /// The key as in the configuration: user=42, or "tenant=a, user=42"
    #[arg(long, value_name = "NAME=VALUE")]
    key: String,
    /// The key's limits, such as 5000/minute, or unlimited
    #[arg(value_name = "LIMIT", conflicts_with = "remove", required_unless_present = "remove")]
    limits: Vec<String>,
    /// How long it lasts: 30m, 2h, 7d
    #[arg(long = "for", value_name = "TIME", required_unless_present = "remove")]
    lasts: Option<String>,
    /// Remove the override of this key
    #[arg(long, conflicts_with = "lasts")]
    remove: bool,
}

impl OverrideArgs {
    pub(super) fn send(&self, client: &AdminClient) -> anyhow::Result<String> {
        let mut body = json!({ "policy": self.policy, "key": self.key });
        if self.remove {
            return client.delete("/overrides", Some(&body));
        }
        body["limits"] = match &self.limits[..] {
            [limit] if limit == "unlimited" => json!(limit),
            limits => json!(limits),
        };
        body["expires_in"] = json!(self.lasts);
        client.post("/overrides", &body)
    }
}

/// A mode to set or to remove.
#[derive(Debug, clap::Args)]
pub(super) struct ModeArgs {
    /// The policy's name
    #[arg(long, value_name = "NAME")]
    policy: String,
    /// enforce, shadow (count, and deny nobody) or off
    #[arg(value_name = "MODE", conflicts_with = "remove", required_unless_present = "remove")]
    mode: Option<String>,
    /// How long it lasts: 30m, 2h, 7d. Without it, 400 days
    #[arg(long = "for", value_name = "TIME")]
    lasts: Option<String>,
    /// Go back to the mode of the configuration
    #[arg(long, conflicts_with = "lasts")]
    remove: bool,
}

impl ModeArgs {
    pub(super) fn send(&self, client: &AdminClient) -> anyhow::Result<String> {
        let path = format!("/policies/{}/mode", escaped(&self.policy));
        if self.remove {
            return client.delete(&path, None);
        }
        let Some(mode) = &self.mode else { bail!("no mode: expected enforce, shadow or off") };
        let mut body = json!({ "mode": mode });
        if let Some(lasts) = &self.lasts {
            body["expires_in"] = json!(lasts);
        }
        client.post(&path, &body)
    }
}

pub(super) fn set_or_removed_text(answer: &Value) -> String {
    let policy = printable(answer["policy"].as_str().unwrap_or_default());
    match answer["expires_in_secs"].as_u64() {
        Some(secs) => {
            format!("{policy}: set on all instances, for {}\n", Span::from_secs(secs).roughly())
        }
        None => format!("{policy}: removed; the configuration is in effect again\n"),
    }
}

/// A name as a segment of a path.
fn escaped(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_of_a_path() {
        assert_eq!(escaped("per-user"), "per-user");
        assert_eq!(escaped("a/b c?é"), "a%2Fb%20c%3F%C3%A9");
    }

    #[test]
    fn answers_in_words() {
        let set = json!({ "policy": "login", "expires_in_secs": 7_200 });
        assert_eq!(set_or_removed_text(&set), "login: set on all instances, for 2h\n");
        let removed = json!({ "policy": "login", "removed": true });
        let text = "login: removed; the configuration is in effect again\n";
        assert_eq!(set_or_removed_text(&removed), text);
    }
}
