//! The suggestion as a configuration, with the evidence in comments.

use std::fmt::Write as _;

use tidegate::{AlgorithmKind, Quota, Timestamp};

use super::{LimitSearch, LimitSuggestion, SuggestedLimit, ToleranceBasis};
use crate::report::{clip, count, counted, moment, share};

impl LimitSearch {
    /// A whole configuration with one policy.
    pub(super) fn policy(&self, algorithm: AlgorithmKind, quota: &Quota) -> String {
        let mut text = String::from("policies:\n");
        let name: Vec<String> = self.key.iter().map(|name| plain(name)).collect();
        let name = if name.is_empty() { "everyone".to_owned() } else { name.join("-") };
        let _ = writeln!(text, "  - name: \"per-{}\"", clip(&name, 60));
        if !self.matches.is_empty() {
            let pair =
                |(name, value): &(String, String)| format!("{}: {}", word(name), quoted(value));
            let matches: Vec<_> = self.matches.iter().map(pair).collect();
            let _ = writeln!(text, "    match: {{ {} }}", matches.join(", "));
        }
        let key: Vec<_> = self.key.iter().map(|name| word(name)).collect();
        let _ = writeln!(text, "    key: [{}]", key.join(", "));
        let _ = writeln!(text, "    limits: [{quota}]");
        let _ = writeln!(text, "    algorithm: {algorithm}");
        text
    }
}

impl LimitSuggestion {
    /// The limit of the chosen algorithm, ready to be used; the others as comments.
    pub fn snippet(&self) -> String {
        let search = &self.search;
        let (first, last) = (self.log_summary.first, self.log_summary.last);
        let (first, last) = (first.unwrap_or(Timestamp::ZERO), last.unwrap_or(Timestamp::ZERO));
        let mut text = String::new();
        let _ = writeln!(
            text,
            "# From {} of {},\n# {} to {} (UTC).",
            counted(self.requests, "request"),
            counted(self.keys, "key"),
            moment(first),
            moment(last)
        );
        let percentiles: Vec<_> = self
            .percentiles()
            .iter()
            .map(|(name, peak)| format!("{name} {}", count(*peak)))
            .collect();
        let window = search.window;
        let _ = writeln!(text, "# Busiest {window} of a key: {}.", percentiles.join(", "));
        let tolerated = share(search.tolerate);
        let _ = writeln!(text, "# Tolerated: {tolerated} of {} denied.", search.basis);
        if self.sampled > 1 {
            let _ = writeln!(
                text,
                "# From a sample: one key of {}, with {} of {} requests.",
                count(self.sampled),
                count(self.requests),
                count(self.seen)
            );
        }
        if let Some(found) = self.found.iter().find(|found| found.algorithm == search.algorithm) {
            let _ = writeln!(text, "# {}.", self.evidence(found));
            text.push_str(&search.policy(found.algorithm, &found.quota));
        }
        for found in self.found.iter().filter(|found| found.algorithm != search.algorithm) {
            let _ = writeln!(
                text,
                "    # or: {{ limits: [{}], algorithm: {} }}",
                found.quota, found.algorithm
            );
            let _ = writeln!(text, "    #   {}", self.evidence(found));
        }
        text
    }

    fn evidence(&self, found: &SuggestedLimit) -> String {
        let of_requests = share(found.denied as f64 / self.requests.max(1) as f64);
        let of_keys = share(found.denied_keys as f64 / self.keys.max(1) as f64);
        let (requests, keys) =
            (counted(found.denied, "request"), counted(found.denied_keys, "key"));
        match self.search.basis {
            ToleranceBasis::Requests => format!("Denies {requests} ({of_requests}), of {keys}"),
            ToleranceBasis::Keys => format!("Denies {keys} ({of_keys}), {requests} of them"),
        }
    }

    /// How full the fullest windows of keys are: for half of all keys, for nine tenths, and so on.
    pub fn percentiles(&self) -> Vec<(&'static str, u64)> {
        let at = |share: f64| {
            let index = (self.peaks.len() as f64 * share).ceil() as usize;
            self.peaks.get(index.clamp(1, self.peaks.len().max(1)) - 1).copied().unwrap_or(0)
        };
        let names = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("most", 1.0)];
        names.map(|(name, share)| (name, at(share))).to_vec()
    }
}

/// Letters, digits and dashes.
fn plain(text: &str) -> String {
    let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '-' };
    text.chars().map(plain).collect()
}

/// Unquoted, if YAML can only read it as this text.
fn word(text: &str) -> String {
    let is_word = text.starts_with(|char: char| char.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !matches!(text, "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null");
    if is_word { text.to_owned() } else { quoted(text) }
}

/// A JSON string is a YAML string too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
