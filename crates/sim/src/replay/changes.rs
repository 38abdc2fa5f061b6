//! Two configurations side by side: who is affected by one and not by the other.

use tidegate_core::Fingerprint;

use super::ReplayLimiter;
use super::run::{ReplayOutcome, ReplayRun, caller_label};
use crate::log::LogRequest;
use crate::sketch::{DistinctSketch, FrequentSketch};

/// What would change.
#[derive(Debug)]
pub struct ReplayChanges {
    /// Requests that would be denied, and currently are not.
    pub newly_denied: u64,
    /// Requests that would be allowed, and currently are not.
    pub newly_allowed: u64,
    /// Keys of requests that would be denied, and currently are not.
    pub keys: DistinctSketch,
    /// The most frequent of them.
    pub(super) top: FrequentSketch<(usize, Fingerprint)>,
    /// The most frequent keys that are currently denied and no longer would be.
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
        ruling: &ReplayOutcome,
        old: &ReplayRun<C>,
        was: &ReplayOutcome,
        request: &LogRequest<'_>,
    ) {
        match (ruling.allowed, was.allowed) {
            (false, true) => {
                self.newly_denied += 1;
                for (number, subject) in &ruling.denying {
                    self.keys.add(subject.high() ^ *number as u64);
                }
                count_callers(&mut self.top, new, ruling, request);
            }
            (true, false) => {
                self.newly_allowed += 1;
                count_callers(&mut self.relieved, old, was, request);
            }
            _ => {}
        }
    }
}

fn count_callers<C: ReplayLimiter>(
    top: &mut FrequentSketch<(usize, Fingerprint)>,
    side: &ReplayRun<C>,
    ruling: &ReplayOutcome,
    request: &LogRequest<'_>,
) {
    for (number, subject) in &ruling.denying {
        if let Some(policy) = side.plan().policies().get(*number) {
            top.add((*number, *subject), || caller_label(policy, request));
        }
    }
}

const MOST_CANDIDATES: usize = 8_192;
