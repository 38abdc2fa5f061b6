//! Whether the store is in trouble, for those who look after it.

use parking_lot::Mutex;
use tidegate_core::{Span, Timestamp};
use tidegate_store::{StoreError, StoreErrorKind};

/// The store's failures, as one story: it begins with the first and is over a while after the last, so
/// that a store of which a part is away is not reported as lost and regained many times a second.
#[derive(Debug, Default)]
pub(crate) struct StoreTrouble(Mutex<Option<FailureEpisode>>);

#[derive(Debug)]
struct FailureEpisode {
    kind: StoreErrorKind,
    /// What a failure of this kind said. Others may say it in other words, and nobody wants to read
    /// each of them.
    what: String,
    /// When that was.
    said: Timestamp,
    last: Timestamp,
}

/// So long without a failure, and the trouble is over.
const QUIET: Span = Span::from_secs(3);

impl StoreTrouble {
    /// The store failed.
    pub(crate) fn record(&self, error: &StoreError, now: Timestamp) {
        let mut story = self.0.lock();
        match story.as_mut() {
            Some(story) if story.covers(error.kind(), now) => story.last = now,
            _ => {
                let (kind, what) = (error.kind(), error.to_string());
                *story = Some(FailureEpisode { kind, what, said: now, last: now });
            }
        }
    }

    /// What is wrong, if anything is. A store that is not even asked is in trouble whenever it failed
    /// last.
    pub(crate) fn problem(&self, now: Timestamp, is_asked: bool) -> Option<String> {
        let story = self.0.lock();
        let story = story.as_ref().filter(|story| !is_asked || !story.is_old(now))?;
        Some(story.what.clone())
    }
}

impl FailureEpisode {
    /// Whether a failure of this kind says nothing new. Now and then it is heard all the same: one
    /// cause may have taken the place of another of its kind.
    fn covers(&self, kind: StoreErrorKind, now: Timestamp) -> bool {
        self.kind == kind && !self.is_old(now) && now.since(self.said) < QUIET
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
