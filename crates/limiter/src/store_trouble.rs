//! Summarizes the store's failures for operators: the problem that lasts, not each single error.

use parking_lot::Mutex;
use tidegate_core::{Span, Timestamp};
use tidegate_store::{StoreError, StoreErrorKind};

/// The store's failures as one episode. It begins with the first failure and ends some time after the
/// last, so that a store with one failed node is not reported as lost and recovered many times a second.
#[derive(Debug, Default)]
pub(crate) struct StoreTrouble(Mutex<Option<FailureEpisode>>);

/// A run of failures of one kind.
#[derive(Debug)]
struct FailureEpisode {
    kind: StoreErrorKind,
    /// The text of one failure. The others differ in wording only, and would fill the log.
    message: String,
    /// When that failure happened.
    reported_at: Timestamp,
    last: Timestamp,
}

/// An episode ends after this long without a failure.
const QUIET: Span = Span::from_secs(3);

impl StoreTrouble {
    /// Records a failure of the store.
    pub(crate) fn record(&self, error: &StoreError, now: Timestamp) {
        let mut episode = self.0.lock();
        match episode.as_mut() {
            Some(episode) if episode.covers(error.kind(), now) => episode.last = now,
            _ => {
                let (kind, message) = (error.kind(), error.to_string());
                *episode = Some(FailureEpisode { kind, message, reported_at: now, last: now });
            }
        }
    }

    /// The current problem, if there is one. While no requests are sent to the store, the last episode
    /// stays current, however old it is.
    pub(crate) fn problem(&self, now: Timestamp, is_asked: bool) -> Option<String> {
        let episode = self.0.lock();
        let episode = episode.as_ref().filter(|episode| !is_asked || !episode.is_old(now))?;
        Some(episode.message.clone())
    }
}

impl FailureEpisode {
    /// Whether a failure of this kind belongs to this episode. Every few seconds it starts a new one
    /// all the same: its cause may have changed within the kind.
    fn covers(&self, kind: StoreErrorKind, now: Timestamp) -> bool {
        self.kind == kind && !self.is_old(now) && now.since(self.reported_at) < QUIET
    }

    fn is_old(&self, now: Timestamp) -> bool {
        now.since(self.last) >= QUIET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    fn failure(kind: StoreErrorKind, text: &'static str) -> StoreError {
        StoreError::new(kind, text)
    }

    #[test]
    fn a_store_that_answers_now_and_then_is_in_trouble_all_along() {
        let trouble = StoreTrouble::default();
        assert_eq!(trouble.problem(at(0), true), None);
        for second in 0..5 {
            trouble.record(&failure(StoreErrorKind::Timeout, "slow"), at(second * 2_000));
            assert!(trouble.problem(at(second * 2_000 + 1_999), true).is_some());
        }
        assert!(trouble.problem(at(8_000 + 2_999), true).is_some());
        assert_eq!(trouble.problem(at(8_000 + 3_000), true), None);
        assert!(trouble.problem(at(60_000), false).is_some(), "nobody asks it");
    }

    #[test]
    fn the_first_of_a_kind_is_told_and_another_kind_takes_its_place() {
        let trouble = StoreTrouble::default();
        let what = |now| trouble.problem(at(now), true).unwrap();
        trouble.record(&failure(StoreErrorKind::Unreachable, "refused"), at(0));
        trouble.record(&failure(StoreErrorKind::Unreachable, "not asked"), at(1));
        assert!(what(2).contains("refused"));
        trouble.record(&failure(StoreErrorKind::Misconfigured, "no password"), at(3));
        assert!(what(4).contains("no password"));
        for millis in 4..3_010 {
            trouble.record(&failure(StoreErrorKind::Misconfigured, "no rights"), at(millis));
            assert_eq!(what(millis).contains("no rights"), millis >= 3_003, "{millis}");
        }
    }
}
