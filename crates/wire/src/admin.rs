//! What a server tells those who look after it, at `/admin/v1`.

use serde::{Deserialize, Serialize};

/// The state of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Of the program.
    pub version: String,
    /// Seconds since the start.
    pub uptime_secs: u64,
    /// How long decisions took: of one in sixteen.
    pub decision: Timing,
    /// The policies, those with most decisions first.
    pub policies: Vec<PolicyStatus>,
    /// How many more there are.
    pub policies_omitted: usize,
    /// Requests that no policy was about.
    pub unmatched: u64,
    /// Where the counters are.
    pub store: StoreStatus,
    /// The process.
    pub process: ProcessStatus,
    /// The configuration.
    pub config: ConfigStatus,
    /// The most frequent keys.
    pub top: Top,
}

/// One policy: what it is, and what it has said since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// Its name.
    pub name: String,
    /// `enforce`, `shadow` or `off`.
    pub mode: String,
    /// The attributes of its key.
    pub key: Vec<String>,
    /// Its limits by their names: rates such as `100/1m`, each of which is there once.
    pub limits: Vec<String>,
    /// What it does without the store.
    pub on_store_error: String,
    /// Keys with limits of their own.
    pub overrides: usize,
    /// Requests that it allowed.
    pub allowed: u64,
    /// Requests that it denied.
    pub denied: u64,
    /// Requests that it would have denied, were it obeyed.
    pub shadow_denied: u64,
    /// Looks that took nothing.
    pub peeked: u64,
    /// Of all those, decided without the store.
    pub fallback: u64,
    /// Denied clients that came back before they should.
    pub early_returns: u64,
}

/// How long something took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Upper bounds in nanoseconds.
    pub bounds_nanos: Vec<u64>,
    /// How many fell into each; the last is of those above all bounds.
    pub counts: Vec<u64>,
}

/// Where the counters are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Whether it is at the other end of a wire.
    pub is_remote: bool,
    /// Whether nobody asks it at the moment, because it did not answer.
    pub breaker_open: bool,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// How long its answers took.
    pub latency: Timing,
    /// How often it failed.
    pub errors: u64,
    /// Keys in it, where that is known.
    pub keys: Option<u64>,
    /// Its memory, where that is known.
    pub bytes: Option<u64>,
}

/// What the process takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Memory.
    pub resident_bytes: Option<u64>,
    /// File descriptors.
    pub open_fds: Option<u64>,
}

/// How it stands with the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigStatus {
    /// Reloads that took effect.
    pub reloads: u64,
    /// Reloads that were refused.
    pub refused: u64,
    /// What is wrong with the file that would be in use if it were right.
    pub problem: Option<String>,
    /// Overrides and modes that were set while it runs.
    pub amendments: usize,
}

/// The most frequent keys of this minute and the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Top {
    /// A count is too large by at most the total divided by this.
    pub counters: u64,
    /// Decisions.
    pub busiest_total: u64,
    /// Denials.
    pub denied_total: u64,
    /// Who asks most.
    pub busiest: Vec<TopKey>,
    /// Who is denied most.
    pub denied: Vec<TopKey>,
}

/// A key that comes often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopKey {
    /// Whose key.
    pub policy: String,
    /// A fingerprint, or the key where the server shows it.
    pub key: String,
    /// About how often.
    pub count: u64,
    /// By how much that may be too large.
    pub error: u64,
}

/// A change that was made while the server runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmendmentStatus {
    /// The policy.
    pub policy: String,
    /// Of an override: whose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Of an override: the limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// Of a mode: which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Until it ends.
    pub expires_in_secs: u64,
    /// Why it is not in effect.
    pub problem: Option<String>,
}
