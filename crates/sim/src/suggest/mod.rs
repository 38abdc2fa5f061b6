//! Finds the smallest limit that denies no more of a log's requests than is tolerated.

mod report;
mod snippet;
mod timelines;

use std::fmt;
use std::str::FromStr;

use tidegate::config::{FileProblems, PolicySource};
use tidegate::{AlgorithmKind, Cost, Limit, Quota, QuotaError, Span};

use self::timelines::{KeySampler, KeyTimelines, LimitDenials};
use crate::WorkProgress;
use crate::log::{LogInput, LogReadError, LogReader, LogSummary, attribute_names};
use crate::replay::compile;

/// A search for the smallest limit.
///
/// ```
/// use tidegate::{AlgorithmKind, Span};
/// use tidegate_sim::log::LogInput;
/// use tidegate_sim::{WorkProgress, LimitSearch};
///
/// let lines: String = (0..100).map(|n| format!("{n},10.0.0.{}\n", n % 10)).collect();
/// let log = LogInput::bytes("log.csv", format!("time,ip\n{lines}"));
/// let suggest = LimitSearch::new(vec!["ip".to_owned()], Span::from_secs(60));
/// let suggestion = suggest.run(vec![log], |reader| reader, &WorkProgress::default())?;
/// // Each address comes every ten seconds, so an exact limit must be six a minute.
/// let exact = suggestion.found.iter().find(|found| found.algorithm == AlgorithmKind::SlidingLog);
/// assert_eq!(exact.map(|found| found.quota.limit()), Some(6));
/// # Ok::<(), tidegate_sim::SuggestError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LimitSearch {
    /// The attributes that distinguish callers.
    pub key: Vec<String>,
    /// Only requests that match: names and patterns, as in a policy.
    pub matches: Vec<(String, String)>,
    /// The window of the limit.
    pub window: Span,
    /// The share that may be denied, from 0 to 1.
    pub tolerate: f64,
    /// What the tolerated share is a share of.
    pub basis: ToleranceBasis,
    /// The algorithm whose limit is written as a policy; the others become comments.
    pub algorithm: AlgorithmKind,
}

/// What a tolerated share is a share of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToleranceBasis {
    /// Requests.
    Requests,
    /// Keys with any request denied.
    Keys,
}

/// The result of a search.
#[derive(Debug)]
pub struct LimitSuggestion {
    /// The search.
    pub search: LimitSearch,
    /// About the log itself.
    pub log_summary: LogSummary,
    /// Requests that have the key.
    pub requests: u64,
    /// Distinct keys.
    pub keys: u64,
    /// How many keys each sampled key stands for; more than one for very long logs.
    pub sampled: u64,
    /// Requests of all keys, sampled or not.
    pub seen: u64,
    /// The fullest window of each key, in ascending order.
    peaks: Vec<u64>,
    /// By algorithm.
    pub found: Vec<SuggestedLimit>,
    /// Algorithms for which no limit is possible, and why.
    pub refused: Vec<(AlgorithmKind, QuotaError)>,
}

/// The smallest limit of an algorithm.
#[derive(Clone, Debug)]
pub struct SuggestedLimit {
    /// The algorithm.
    pub algorithm: AlgorithmKind,
    /// The limit.
    pub quota: Quota,
    /// Requests that it denies.
    pub denied: u64,
    /// Keys for which it denies a request.
    pub denied_keys: u64,
    /// Other limits, and the share that they deny.
    curve: Vec<(u64, f64)>,
}

/// Why nothing can be suggested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuggestError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogReadError),
    /// The key or the match does not make a valid policy.
    #[error(transparent)]
    InvalidPolicy(#[from] FileProblems),
    /// The window does not make a valid limit.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// Too many requests came from too few keys.
    #[error(
        "each key {key} has more requests than can be examined, {seen} in total: expected a shorter \
         log, or a key that distinguishes more callers"
    )]
    TooBusy {
        /// The attributes.
        key: String,
        /// Requests that have the key.
        seen: u64,
    },
    /// No request has the key.
    #[error(
        "no request of {requests} has the key {key}{}: expected {}",
        matching(*.has_match),
        other_keys(names)
    )]
    NoRequests {
        /// Requests in the log.
        requests: u64,
        /// The attributes.
        key: String,
        /// Whether only some requests were considered.
        has_match: bool,
        /// Other attributes that the log seems to have.
        names: Vec<String>,
    },
}

fn matching(has_match: bool) -> &'static str {
    if has_match { " and matches" } else { "" }
}

fn other_keys(names: &[String]) -> String {
    match names {
        [] => "some that do".to_owned(),
        names => format!("an attribute that the log has, such as {}", names.join(", ")),
    }
}

impl LimitSearch {
    /// Tolerates a thousandth of all requests.
    pub const fn new(key: Vec<String>, window: Span) -> Self {
        Self {
            key,
            matches: Vec::new(),
            window,
            tolerate: 0.001,
            basis: ToleranceBasis::Requests,
            algorithm: AlgorithmKind::SlidingWindow,
        }
    }

    /// Reads the log once, and tries limits until the smallest is found. `set_up` configures the
    /// reader.
    ///
    /// # Errors
    ///
    /// If the log cannot be read, or no request has the key.
    pub fn run(
        self,
        mut inputs: Vec<LogInput>,
        set_up: impl FnOnce(LogReader) -> LogReader,
        progress: &WorkProgress,
    ) -> Result<LimitSuggestion, SuggestError> {
        // The suggested policy itself yields the keys, so that its limit is about the same callers.
        let any = Quota::new(1, self.window)?;
        let source =
            PolicySource::new("suggested policy", self.policy(AlgorithmKind::FixedWindow, &any))?;
        let plan = compile(&source)?;
        let reader = set_up(LogReader::new(plan.attributes()));
        let names = inputs.first_mut().map(attribute_names).unwrap_or_default();
        let mut sampler = KeySampler::new();
        let summary = reader.read(inputs, progress, |request| {
            if let Some(subject) = plan.charges(request, Cost::ONE).subject(0) {
                sampler.add(subject, request.at);
            }
        })?;
        let (summary, timelines) = (summary.require_requests()?, sampler.into_timelines());
        if timelines.requests() == 0 {
            return Err(self.no_requests_error(timelines.seen, summary.requests, names));
        }
        Ok(self.search(&timelines, summary))
    }

    /// Why there are no requests to examine.
    fn no_requests_error(&self, seen: u64, requests: u64, names: Vec<String>) -> SuggestError {
        let key = self.key.join(" and ");
        let names = names.into_iter().filter(|name| !self.key.contains(name)).collect();
        let has_match = !self.matches.is_empty();
        match seen {
            0 => SuggestError::NoRequests { requests, key, has_match, names },
            seen => SuggestError::TooBusy { key, seen },
        }
    }

    fn search(self, timelines: &KeyTimelines, summary: LogSummary) -> LimitSuggestion {
        let peaks = timelines.peaks(self.window);
        let highest = peaks.last().copied().unwrap_or(1).max(1);
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        for kind in AlgorithmKind::ALL {
            match self.smallest_limit(*kind, highest, timelines) {
                Ok(smallest) => found.push(smallest),
                Err(error) => refused.push((*kind, error)),
            }
        }
        LimitSuggestion {
            requests: timelines.requests(),
            keys: timelines.keys(),
            sampled: 1 << timelines.halved,
            seen: timelines.seen,
            peaks,
            found,
            refused,
            log_summary: summary,
            search: self,
        }
    }

    /// Finds the smallest limit by bisection. The returned limit was tried, so it denies no more than
    /// is tolerated, even if an algorithm's denials do not fall steadily.
    fn smallest_limit(
        &self,
        kind: AlgorithmKind,
        highest: u64,
        timelines: &KeyTimelines,
    ) -> Result<SuggestedLimit, QuotaError> {
        let limit = |units: u64| Limit::new(kind, &Quota::new(units, self.window)?);
        let denied = |units: u64| Ok::<_, QuotaError>(timelines.denied_by(&limit(units)?));
        // Twice the fullest window denies nobody; nor does the fullest window itself where windows
        // are exact.
        let mut good = if limit(highest.saturating_mul(2)).is_ok() { highest * 2 } else { highest };
        let mut at_good = denied(good)?;
        let mut bad = 0;
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            let at_middle = denied(middle)?;
            if self.denied_share(&at_middle, timelines) <= self.tolerate {
                (good, at_good) = (middle, at_middle);
            } else {
                bad = middle;
            }
        }
        let mut curve = Vec::new();
        for units in limits_around(good) {
            curve.push((units, self.denied_share(&denied(units)?, timelines)));
        }
        Ok(SuggestedLimit {
            algorithm: kind,
            quota: Quota::new(good, self.window)?,
            denied: at_good.requests,
            denied_keys: at_good.keys,
            curve,
        })
    }

    fn denied_share(&self, denied: &LimitDenials, timelines: &KeyTimelines) -> f64 {
        match self.basis {
            ToleranceBasis::Requests => denied.requests as f64 / timelines.requests().max(1) as f64,
            ToleranceBasis::Keys => denied.keys as f64 / timelines.keys().max(1) as f64,
        }
    }
}

/// A few limits from half to twice as much: far enough to see what is given up, and near enough to
/// see what is tolerated.
fn limits_around(units: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (-4..=4)
        .map(|step| (units as f64 * (f64::from(step) / 4.0).exp2()).round() as u64)
        .filter(|units| *units > 0)
        .collect();
    all.dedup();
    all
}

impl FromStr for ToleranceBasis {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        match text {
            "requests" => Ok(Self::Requests),
            "keys" => Ok(Self::Keys),
            _ => Err(QuotaError::refused(text, "expected requests or keys")),
        }
    }
}

impl fmt::Display for ToleranceBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requests => "requests",
            Self::Keys => "keys",
        })
    }
}
