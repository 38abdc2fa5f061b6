//! The Sentinels' views of the primary, and which of them counts.

use crate::link::failure::RedisFailure;
use crate::url::RedisAddress;

/// Which server is the primary, according to one Sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SentinelView {
    pub(super) primary: RedisAddress,
    /// Grows with each failover. A Sentinel that was cut off from the others has an older one.
    pub(super) epoch: u64,
}

/// The latest view of each Sentinel, or why it has none.
#[derive(Debug, Default)]
pub(super) struct SentinelViews {
    all: Vec<SentinelViewEntry>,
    /// How often any of them has changed.
    changes: u64,
}

/// The latest view of one Sentinel.
#[derive(Debug)]
struct SentinelViewEntry {
    sentinel: RedisAddress,
    view: Result<SentinelView, RedisFailure>,
    /// When its view changed, as the number of that change; zero if it never did.
    changed: u64,
}

impl SentinelViews {
    pub(super) fn record_view(&mut self, sentinel: &RedisAddress, view: SentinelView) {
        let before = self.entry(sentinel).and_then(|entry| entry.view.as_ref().ok());
        let is_change = before.is_some_and(|before| before.primary != view.primary);
        self.changes += u64::from(is_change);
        let changes = self.changes;
        self.set(sentinel, Ok(view), |before| if is_change { changes } else { before });
    }

    pub(super) fn record_loss(&mut self, sentinel: &RedisAddress, failure: RedisFailure) {
        self.set(sentinel, Err(failure), |_| 0);
    }

    pub(super) fn forget(&mut self, sentinel: &RedisAddress) {
        self.all.retain(|entry| entry.sentinel != *sentinel);
    }

    /// The view with the latest epoch, and among several the one that changed last: epochs are unknown
    /// if the user has no permission to read them.
    pub(super) fn newest(&self) -> Option<&SentinelView> {
        let views = self.all.iter().filter_map(|entry| Some((entry.view.as_ref().ok()?, entry)));
        // Among equals, the first: two spellings of one address must not look like a failover.
        let newest = views.rev().max_by_key(|(view, entry)| (view.epoch, entry.changed));
        newest.map(|(view, _)| view)
    }

    /// Why there is no view, if all of these have failed.
    pub(super) fn why_none(&self, named: &[RedisAddress]) -> Option<&RedisFailure> {
        let why = |sentinel| self.entry(sentinel)?.view.as_ref().err();
        named.iter().map(why).collect::<Option<Vec<_>>>()?.pop()
    }

    fn entry(&self, sentinel: &RedisAddress) -> Option<&SentinelViewEntry> {
        self.all.iter().find(|entry| entry.sentinel == *sentinel)
    }

    fn set(
        &mut self,
        sentinel: &RedisAddress,
        view: Result<SentinelView, RedisFailure>,
        changed: impl Fn(u64) -> u64,
    ) {
        match self.all.iter_mut().find(|entry| entry.sentinel == *sentinel) {
            Some(entry) => (entry.view, entry.changed) = (view, changed(entry.changed)),
            None => {
                self.all.push(SentinelViewEntry { sentinel: sentinel.clone(), view, changed: 0 });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_store::StoreErrorKind;

    use super::*;

    fn at(host: &str) -> RedisAddress {
        RedisAddress::Tcp { host: host.to_owned(), port: 1 }
    }

    fn view(primary: &str, epoch: u64) -> SentinelView {
        SentinelView { primary: at(primary), epoch }
    }

    fn primary(views: &SentinelViews) -> Option<RedisAddress> {
        views.newest().map(|view| view.primary.clone())
    }

    #[test]
    fn the_latest_epoch_counts_whoever_says_so() {
        let mut views = SentinelViews::default();
        views.record_view(&at("a"), view("old", 1));
        views.record_view(&at("b"), view("new", 2));
        assert_eq!(primary(&views), Some(at("new")));
        // A Sentinel that is out of date is still out of date after its view changed.
        views.record_view(&at("a"), view("older", 1));
        assert_eq!(primary(&views), Some(at("new")));
        views.record_loss(&at("b"), RedisFailure::not_run(StoreErrorKind::Unreachable, "gone"));
        assert_eq!(primary(&views), Some(at("older")));
    }

    #[test]
    fn of_equals_the_one_that_changed_last_counts_and_otherwise_the_first() {
        let mut views = SentinelViews::default();
        views.record_view(&at("a"), view("10.0.0.1", 0));
        views.record_view(&at("b"), view("redis-0", 0));
        assert_eq!(primary(&views), Some(at("10.0.0.1")));
        views.record_view(&at("b"), view("redis-1", 0));
        assert_eq!(primary(&views), Some(at("redis-1")));
        views.record_view(&at("b"), view("redis-1", 0));
        views.record_view(&at("a"), view("10.0.0.1", 0));
        assert_eq!(primary(&views), Some(at("redis-1")));
        views.record_view(&at("a"), view("10.0.0.2", 0));
        assert_eq!(primary(&views), Some(at("10.0.0.2")));
    }

    #[test]
    fn there_is_no_primary_once_all_that_are_named_have_failed() {
        let (mut views, named) = (SentinelViews::default(), [at("a"), at("b")]);
        let gone = || RedisFailure::not_run(StoreErrorKind::Unreachable, "gone");
        views.record_loss(&at("a"), gone());
        views.record_loss(&at("c"), gone());
        assert!(views.why_none(&named).is_none(), "b may still answer");
        views.record_loss(&at("b"), gone());
        assert!(views.why_none(&named).is_some() && views.newest().is_none());
        views.record_view(&at("c"), view("p", 1));
        assert_eq!(primary(&views), Some(at("p")));
        views.forget(&at("c"));
        assert_eq!(primary(&views), None);
    }
}
