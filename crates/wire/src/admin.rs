//! The JSON types of the admin API at `/admin/v1`.

use serde::{Deserialize, Serialize};

/// The state of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The program's version.
    pub version: String,
    /// Seconds since the start.
    pub uptime_secs: u64,
    /// How long decisions took, sampled from one in sixteen.
    pub decision: TimingHistogram,
    /// The policies, those with the most decisions first.
    pub policies: Vec<PolicyStatus>,
    /// Policies that are left out of `policies`.
    pub policies_omitted: usize,
    /// Requests that no policy applied to.
    pub unmatched: u64,
    /// The store that holds the counters.
    pub store: StoreStatus,
    /// The process.
    pub process: ProcessStatus,
    /// The configuration.
    pub config: ConfigStatus,
    /// The most frequent keys.
    pub top: TopStatus,
}

/// The configuration of one policy, and its decisions since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// Its name.
    pub name: String,
    /// `enforce`, `shadow` or `off`.
    pub mode: String,
    /// The attributes of its key.
    pub key: Vec<String>,
    /// Its limits by name: rates such as `100/minute`, each listed once.
    pub limits: Vec<String>,
    /// What it does while the store is unavailable.
    pub on_store_error: String,
    /// Keys with limits of their own.
    pub overrides: usize,
    /// Requests that it allowed.
    pub allowed: u64,
    /// Requests that it denied.
    pub denied: u64,
    /// Requests that it would have denied if it were enforced.
    pub shadow_denied: u64,
    /// Peeks, which take nothing.
    pub peeked: u64,
    /// Those of the decisions above that were made without the store.
    pub fallback: u64,
    /// Retries of denied clients before their `Retry-After`.
    pub early_returns: u64,
    /// Charges of new keys that had to share a counter, if the store counts them.
    pub overflowed: Option<u64>,
}

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimingHistogram {
    /// Upper bounds in nanoseconds.
    pub bounds_nanos: Vec<u64>,
    /// The number of durations in each bucket; the last bucket is above all bounds.
    pub counts: Vec<u64>,
}

/// The store that holds the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Whether it is reached over a network or socket.
    pub is_remote: bool,
    /// Whether the circuit breaker is open: the store did not answer, and gets no requests for now.
    pub breaker_open: bool,
    /// What is wrong with the store.
    pub problem: Option<String>,
    /// How long its responses took.
    pub latency: TimingHistogram,
    /// Failed calls.
    pub errors: u64,
    /// Keys in the store, if known.
    pub keys: Option<u64>,
    /// The most keys that it holds, if bounded.
    pub max_keys: Option<u64>,
    /// Its memory in bytes, if known.
    pub bytes: Option<u64>,
    /// The most memory that it uses in bytes, if bounded.
    pub max_bytes: Option<u64>,
    /// Charges of new keys that had to share a counter because the store was full.
    pub overflowed: Option<u64>,
}

/// The resources that the process uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_fds: Option<u64>,
}

/// The state of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigStatus {
    /// Reloads that took effect.
    pub reloads: u64,
    /// Reloads that were refused.
    pub refused: u64,
    /// What is wrong with the current file, if it is not in use.
    pub problem: Option<String>,
    /// Overrides and modes that were set at run time.
    pub amendments: usize,
}

/// The most frequent keys of this minute and the previous one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopStatus {
    /// A count is too high by at most the total divided by this.
    pub counters: u64,
    /// Decisions in total.
    pub busiest_total: u64,
    /// Denials in total.
    pub denied_total: u64,
    /// The keys with the most decisions.
    pub busiest: Vec<TopKey>,
    /// The keys with the most denials.
    pub denied: Vec<TopKey>,
}

/// A frequent key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopKey {
    /// The policy that the key belongs to.
    pub policy: String,
    /// A fingerprint, or the key itself if the server shows keys.
    pub key: String,
    /// The approximate number of decisions or denials.
    pub count: u64,
    /// The most by which the count is too high.
    pub error: u64,
}

/// A change that was made at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmendmentStatus {
    /// The policy.
    pub policy: String,
    /// For an override: its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// For an override: the limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// For a mode: the mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Seconds until it ends.
    pub expires_in_secs: u64,
    /// Why the change is not in effect.
    pub problem: Option<String>,
}
