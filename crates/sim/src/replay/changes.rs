//! Compares two configurations: which requests only one of them denies.

use tidegate_core::Fingerprint;

use super::ReplayLimiter;
use super::run::{ReplayOutcome, ReplayRun, caller_label};
use crate::log::LogRequest;
use crate::sketch::{DistinctSketch, FrequentSketch};

/// What would change with the new configuration.
#[derive(Debug)]
pub struct ReplayChanges {
    /// Requests that would be denied but currently are not.
    pub newly_denied: u64,
    /// Requests that would be allowed but currently are not.
    pub newly_allowed: u64,
    /// Keys of the newly denied requests.
    pub keys: DistinctSketch,
    /// The most frequent of these keys.
    pub(super) top: FrequentSketch<(usize, Fingerprint)>,
    /// The most frequent keys of the newly allowed requests.
    pub(super) relieved: FrequentSketch<(usize, Fingerprint)>,
}

impl Default for ReplayChanges {
    fn default() -> Self {
        Self {
            newly_denied: 0,
            newly_allowed: 0,
            keys: DistinctSketch::default(),
            top: FrequentSketch::new(MOST_CANDIDATES),
            relieved: FrequentSketch::new(MOST_CANDIDATES),
        }
    }
}

impl ReplayChanges {
    pub(super) fn record<C: ReplayLimiter>(
        &mut self,
        new: &ReplayRun<C>,
        outcome: &ReplayOutcome,
        old: &ReplayRun<C>,
        old_outcome: &ReplayOutcome,
        request: &LogRequest<'_>,
    ) {
        match (outcome.allowed, old_outcome.allowed) {
            (false, true) => {
                self.newly_denied += 1;
                for (number, subject) in &outcome.denying {
                    self.keys.add(subject.high() ^ *number as u64);
                }
                count_callers(&mut self.top, new, outcome, request);
            }
            (true, false) => {
                self.newly_allowed += 1;
                count_callers(&mut self.relieved, old, old_outcome, request);
            }
            _ => {}
        }
    }
}

fn count_callers<C: ReplayLimiter>(
    top: &mut FrequentSketch<(usize, Fingerprint)>,
    run: &ReplayRun<C>,
    outcome: &ReplayOutcome,
    request: &LogRequest<'_>,
) {
    for (number, subject) in &outcome.denying {
        if let Some(policy) = run.plan().policies().get(*number) {
            top.add((*number, *subject), || caller_label(policy, request));
        }
    }
}

const MOST_CANDIDATES: usize = 8_192;
