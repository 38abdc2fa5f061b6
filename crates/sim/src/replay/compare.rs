//! Two configurations side by side: who is affected by one and not by the other.

use tidegate_core::Fingerprint;

use super::Court;
use super::side::{Ruling, Side, label};
use crate::log::Request;
use crate::sketch::{Distinct, Frequent};

/// What would change.
#[derive(Debug)]
pub struct Changes {
    /// Requests that would be denied, and currently are not.
    pub newly_denied: u64,
    /// Requests that would be allowed, and currently are not.
    pub newly_allowed: u64,
    /// Keys of requests that would be denied, and currently are not.
    pub keys: Distinct,
    /// The most frequent of them.
    pub(super) top: Frequent<(usize, Fingerprint)>,
    /// The most frequent keys that are currently denied and no longer would be.
    pub(super) relieved: Frequent<(usize, Fingerprint)>,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            newly_denied: 0,
            newly_allowed: 0,
            keys: Distinct::default(),
            top: Frequent::new(MOST_CANDIDATES),
            relieved: Frequent::new(MOST_CANDIDATES),
        }
    }
}

impl Changes {
    pub(super) fn note<C: Court>(
        &mut self,
        new: &Side<C>,
        ruling: &Ruling,
        old: &Side<C>,
        was: &Ruling,
        request: &Request<'_>,
    ) {
        match (ruling.allowed, was.allowed) {
            (false, true) => {
                self.newly_denied += 1;
                for (number, subject) in &ruling.denying {
                    self.keys.add(subject.high() ^ *number as u64);
                }
                count(&mut self.top, new, ruling, request);
            }
            (true, false) => {
                self.newly_allowed += 1;
                count(&mut self.relieved, old, was, request);
            }
            _ => {}
        }
    }
}

fn count<C: Court>(
    top: &mut Frequent<(usize, Fingerprint)>,
    side: &Side<C>,
    ruling: &Ruling,
    request: &Request<'_>,
) {
    for (number, subject) in &ruling.denying {
        if let Some(policy) = side.plan().policies().get(*number) {
            top.add((*number, *subject), || label(policy, request));
        }
    }
}

const MOST_CANDIDATES: usize = 8_192;
