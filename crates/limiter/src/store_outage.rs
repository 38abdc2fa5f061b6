//! Notices when a remote store is lost and when it is found again, and says so once each.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tidegate_core::{Span, Timestamp};
use tidegate_store::StoreError;

use crate::notice::notice;
use crate::store_event::{StoreEvent, StoreObserver};

/// Whether the store is lost at present, and who is told when that changes.
#[derive(Default)]
pub(crate) struct StoreOutage {
    /// Whose store it is, in lines for people.
    owner: String,
    observer: Option<StoreObserver>,
    /// Read with every answer; the times below only while it is set.
    is_lost: AtomicBool,
    times: Mutex<OutageTimes>,
}

/// When the store failed first and last.
#[derive(Clone, Copy, Debug, Default)]
struct OutageTimes {
    first: Timestamp,
    last: Timestamp,
}

/// A store is found when it answers and has not failed for this long. A store that fails now and then is
/// reported as lost once, and not many times a second.
const QUIET: Span = Span::from_secs(3);

impl StoreOutage {
    pub(crate) fn of(owner: impl Into<String>, observer: Option<StoreObserver>) -> Self {
        Self { owner: owner.into(), observer, ..Self::default() }
    }

    /// The same outage, for another observer.
    #[cfg(feature = "files")]
    pub(crate) fn observed_by(self, observer: StoreObserver) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Records an answer. `now` is the time of the answer.
    #[inline]
    pub(crate) fn record_answer(&self, now: Timestamp) {
        if self.is_lost.load(Ordering::Relaxed) {
            self.end_if_quiet(now);
        }
    }

    /// Records a failure.
    #[cold]
    pub(crate) fn record_failure(&self, error: &StoreError, now: Timestamp) {
        let is_first = {
            let mut times = self.times.lock();
            let is_first = !self.is_lost.swap(true, Ordering::Relaxed);
            times.first = if is_first { now } else { times.first };
            times.last = now;
            is_first
        };
        if is_first {
            self.report(&StoreEvent::Lost { problem: error.to_string() });
        }
    }

    #[cold]
    fn end_if_quiet(&self, now: Timestamp) {
        let outage = {
            let times = self.times.lock();
            let is_over = now.since(times.last) >= QUIET;
            (is_over && self.is_lost.swap(false, Ordering::Relaxed)).then_some(*times)
        };
        if let Some(OutageTimes { first, last }) = outage {
            self.report(&StoreEvent::Found { after: last.since(first).into() });
        }
    }

    fn report(&self, event: &StoreEvent) {
        match &self.observer {
            Some(observer) => observer(event),
            None if self.owner.is_empty() => notice(&event.to_string()),
            None => notice(&format!("{}: {event}", self.owner)),
        }
    }
}

impl fmt::Debug for StoreOutage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOutage").field("is_lost", &self.is_lost).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_store::StoreErrorKind;

    use super::*;

    #[test]
    fn a_store_is_lost_once_and_found_once_it_has_been_quiet() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let events = Arc::clone(&seen);
        let observer: StoreObserver = Arc::new(move |event| events.lock().push(event.clone()));
        let outage = StoreOutage::of("api", Some(observer));
        let at = |secs| Timestamp::from_secs(secs);
        let fail = |secs| {
            outage.record_failure(&StoreError::new(StoreErrorKind::Timeout, "late"), at(secs));
        };

        outage.record_answer(at(1));
        assert!(seen.lock().is_empty());
        [10, 11, 12].into_iter().for_each(fail);
        // It answers some requests and fails others: that is one outage.
        outage.record_answer(at(12));
        fail(13);
        outage.record_answer(at(15));
        assert_eq!(seen.lock().len(), 1);
        outage.record_answer(at(16));
        outage.record_answer(at(17));
        let found = StoreEvent::Found { after: std::time::Duration::from_secs(3) };
        assert_eq!(seen.lock()[1..], [found]);
        fail(20);
        assert_eq!(seen.lock().len(), 3);
    }

    #[test]
    fn events_are_sentences() {
        let lost = StoreEvent::Lost { problem: "store timed out: late".to_owned() };
        assert!(lost.to_string().ends_with("decides without it: store timed out: late"));
        let found = StoreEvent::Found { after: std::time::Duration::from_secs(75) };
        assert_eq!(found.to_string(), "the store answers again, after 1m15s");
    }
}
