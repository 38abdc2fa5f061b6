//! Finds the primary through its Sentinels.
//!
//! All Sentinels of the service are followed concurrently, each over one connection for queries and
//! one on which it announces changes. Their views have an epoch, so a Sentinel that is cut off from
//! the others and out of date does not mislead us. They are also queried every second, and
//! immediately whenever a call fails in a way that suggests another primary.

mod follower;
mod views;

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_store::StoreErrorKind;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use self::follower::SentinelFollower;
use self::views::{SentinelView, SentinelViews};
use super::failure::RedisFailure;
use super::scoped_task::ScopedTask;
use crate::RedisConfig;
use crate::url::{RedisAddress, RedisLogin};

/// The Sentinels of one service. Several stores may share them, on runtimes of their own.
#[derive(Debug)]
pub(crate) struct SentinelGroup {
    registry: Arc<SentinelRegistry>,
    watcher: ScopedTask,
}

/// What is known about a service and its Sentinels.
#[derive(Debug)]
struct SentinelRegistry {
    config: Arc<RedisConfig>,
    service: String,
    login: RedisLogin,
    /// The Sentinels that the configuration names. They are followed forever.
    named: Vec<RedisAddress>,
    /// The named Sentinels, and those that other Sentinels reported.
    known: Mutex<Vec<KnownSentinel>>,
    views: Mutex<SentinelViews>,
    primary: watch::Sender<PrimaryLocation>,
    /// Counts the reasons to query the Sentinels again.
    suspicions: watch::Sender<u64>,
    /// Notified when another Sentinel becomes known.
    more: Notify,
}

/// A Sentinel to follow.
#[derive(Debug)]
struct KnownSentinel {
    address: RedisAddress,
    /// Its ID, once it has answered: a Sentinel may be known by two addresses.
    id: Option<String>,
}

/// Where the primary is, or why that is unknown.
#[derive(Clone, Debug)]
enum PrimaryLocation {
    /// No caller has needed the primary yet, or the runtime of those that did has ended.
    Idle,
    /// The Sentinels are being queried for the first time.
    Awaited,
    Known(RedisAddress),
    /// No Sentinel answers; this is the failure of the last one.
    Unknown(RedisFailure),
}

impl SentinelGroup {
    pub(super) fn new(
        service: &str,
        login: &RedisLogin,
        named: &[RedisAddress],
        config: &RedisConfig,
    ) -> Self {
        let known = |address: &RedisAddress| KnownSentinel { address: address.clone(), id: None };
        let registry = SentinelRegistry {
            config: Arc::new(config.clone()),
            service: service.to_owned(),
            login: login.clone(),
            named: named.to_vec(),
            known: Mutex::new(named.iter().map(known).collect()),
            views: Mutex::default(),
            primary: watch::Sender::new(PrimaryLocation::Idle),
            suspicions: watch::Sender::new(0),
            more: Notify::new(),
        };
        Self { registry: Arc::new(registry), watcher: ScopedTask::default() }
    }

    /// Where the primary is. Waits for a Sentinel's answer if that is not known yet.
    pub(super) async fn primary(&self) -> Result<RedisAddress, RedisFailure> {
        let mut locations = self.registry.primary.subscribe();
        loop {
            self.start_if_idle();
            match &*locations.borrow_and_update() {
                PrimaryLocation::Known(address) => return Ok(address.clone()),
                PrimaryLocation::Unknown(failure) => return Err(failure.clone()),
                PrimaryLocation::Idle | PrimaryLocation::Awaited => {}
            }
            if locations.changed().await.is_err() {
                let message = "the Sentinels' client was shut down";
                return Err(RedisFailure::not_run(StoreErrorKind::Unreachable, message));
            }
        }
    }

    /// Returns when the primary is somewhere else.
    pub(super) async fn wait_until_moved(&self, address: &RedisAddress) {
        let mut locations = self.registry.primary.subscribe();
        loop {
            self.start_if_idle();
            let location = locations.borrow_and_update().clone();
            if matches!(&location, PrimaryLocation::Known(primary) if primary != address) {
                return;
            }
            if locations.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Queries the Sentinels again, since there may be another primary by now.
    pub(super) fn suspect_primary(&self) {
        self.registry.suspect_primary();
    }

    fn start_if_idle(&self) {
        let won = self.registry.primary.send_if_modified(|location| {
            let idle = matches!(location, PrimaryLocation::Idle);
            if idle {
                *location = PrimaryLocation::Awaited;
            }
            idle
        });
        if won {
            self.watcher.start(SentinelWatcher(Arc::clone(&self.registry)).run());
        }
    }
}

impl SentinelRegistry {
    fn suspect_primary(&self) {
        self.suspicions.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Records a Sentinel's answer.
    fn record_view(&self, sentinel: &RedisAddress, view: SentinelView) {
        let mut views = self.views.lock();
        views.record_view(sentinel, view);
        self.publish(&views);
    }

    /// Records that a Sentinel cannot be reached.
    fn record_loss(&self, sentinel: &RedisAddress, failure: RedisFailure) {
        let mut views = self.views.lock();
        views.record_loss(sentinel, failure);
        self.publish(&views);
    }

    fn publish(&self, views: &SentinelViews) {
        let location = match views.newest() {
            Some(view) => PrimaryLocation::Known(view.primary.clone()),
            // As long as one of them may still answer, callers wait.
            None => match views.why_none(&self.named) {
                Some(failure) => PrimaryLocation::Unknown(failure.clone()),
                None => return,
            },
        };
        self.primary.send_if_modified(|before| {
            // On a runtime that ends, a follower may outlive the watcher. Nothing would correct its view.
            if matches!(before, PrimaryLocation::Idle) {
                return false;
            }
            let is_change = !matches!((&*before, &location), (PrimaryLocation::Known(a), PrimaryLocation::Known(b)) if a == b);
            *before = location;
            is_change
        });
    }

    /// Adds Sentinels that another one reported.
    fn add_sentinels(&self, others: Vec<RedisAddress>) {
        let mut known = self.known.lock();
        for address in others {
            let is_new = known.iter().all(|one| one.address != address);
            if is_new && known.len() < MOST_SENTINELS {
                known.push(KnownSentinel { address, id: None });
                self.more.notify_one();
            }
        }
    }

    /// Records a Sentinel's ID.
    fn record_id(&self, sentinel: &RedisAddress, id: Option<String>) {
        let mut known = self.known.lock();
        let own = known.iter_mut().find(|one| one.address == *sentinel);
        own.into_iter().for_each(|own| own.id.clone_from(&id));
    }

    /// Whether a Sentinel is also followed at an address that was known earlier. A Sentinel that the
    /// configuration names is followed in any case.
    fn is_duplicate(&self, sentinel: &RedisAddress) -> bool {
        let known = self.known.lock();
        let Some(at) = known.iter().position(|one| one.address == *sentinel) else { return false };
        let is_same = |one: &KnownSentinel| one.id.is_some() && one.id == known[at].id;
        !self.named.contains(sentinel) && known[..at].iter().any(is_same)
    }

    /// Forgets a Sentinel that only others reported, and that is gone or known by another address. It
    /// becomes known again if it is reported again.
    fn forget(&self, sentinel: &RedisAddress) {
        self.known.lock().retain(|one| one.address != *sentinel);
        self.views.lock().forget(sentinel);
    }
}

/// Follows all known Sentinels.
struct SentinelWatcher(Arc<SentinelRegistry>);

impl SentinelWatcher {
    async fn run(self) {
        let registry = &self.0;
        let mut followers: JoinSet<RedisAddress> = JoinSet::new();
        let mut followed: Vec<RedisAddress> = Vec::new();
        loop {
            let known: Vec<_> =
                registry.known.lock().iter().map(|one| one.address.clone()).collect();
            for sentinel in
                known.into_iter().filter(|one| !followed.contains(one)).collect::<Vec<_>>()
            {
                followed.push(sentinel.clone());
                followers.spawn(SentinelFollower::new(Arc::clone(registry), sentinel).run());
            }
            tokio::select! {
                () = registry.more.notified() => {}
                Some(Ok(gone)) = followers.join_next() => {
                    followed.retain(|sentinel| *sentinel != gone);
                }
            }
        }
    }
}

/// Lets the next caller start another watcher, on a runtime that is still running.
impl Drop for SentinelWatcher {
    fn drop(&mut self) {
        *self.0.views.lock() = SentinelViews::default();
        self.0.primary.send_replace(PrimaryLocation::Idle);
    }
}

/// The most Sentinels to follow, including those that the configuration names.
const MOST_SENTINELS: usize = 64;
