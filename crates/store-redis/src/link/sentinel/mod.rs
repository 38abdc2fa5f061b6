//! Where Sentinels say that the primary is.
//!
//! All Sentinels of the service are followed at once, each over a connection for questions and one
//! on which it announces changes. What they say has an epoch, so one that is cut off from the
//! others and behind the times misleads nobody. They are asked every second besides, and at once
//! whenever a call makes somebody doubt that the primary still is one.

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

/// What is known, and who wants to know.
#[derive(Debug)]
struct SentinelRegistry {
    config: Arc<RedisConfig>,
    service: String,
    login: RedisLogin,
    /// Those that the configuration names. They are never given up.
    named: Vec<RedisAddress>,
    /// Those, and the ones that others named.
    known: Mutex<Vec<KnownSentinel>>,
    views: Mutex<SentinelViews>,
    primary: watch::Sender<PrimaryLocation>,
    /// How often somebody had a reason to ask again.
    suspicions: watch::Sender<u64>,
    /// Rung when another Sentinel has become known.
    more: Notify,
}

#[derive(Debug)]
struct KnownSentinel {
    address: RedisAddress,
    /// Its own name for itself, once it has answered: it may be known by two addresses.
    id: Option<String>,
}

/// Who is the primary.
#[derive(Clone, Debug)]
enum PrimaryLocation {
    /// Nobody has asked yet, or the runtime of those who did is gone.
    Idle,
    /// Being asked for.
    Awaited,
    Known(RedisAddress),
    /// No Sentinel says, and this is what the last one that failed met.
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
        let desk = SentinelRegistry {
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
        Self { registry: Arc::new(desk), watcher: ScopedTask::default() }
    }

    /// Where the primary is: right away, or once a Sentinel has said so.
    pub(super) async fn primary(&self) -> Result<RedisAddress, RedisFailure> {
        let mut seats = self.registry.primary.subscribe();
        loop {
            self.start_if_idle();
            match &*seats.borrow_and_update() {
                PrimaryLocation::Known(address) => return Ok(address.clone()),
                PrimaryLocation::Unknown(failure) => return Err(failure.clone()),
                PrimaryLocation::Idle | PrimaryLocation::Awaited => {}
            }
            if seats.changed().await.is_err() {
                let message = "the Sentinels were given up";
                return Err(RedisFailure::not_run(StoreErrorKind::Unreachable, message));
            }
        }
    }

    /// Returns when the primary is somewhere else.
    pub(super) async fn wait_until_moved(&self, address: &RedisAddress) {
        let mut seats = self.registry.primary.subscribe();
        loop {
            self.start_if_idle();
            let seat = seats.borrow_and_update().clone();
            if matches!(&seat, PrimaryLocation::Known(primary) if primary != address) {
                return;
            }
            if seats.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The primary may be another by now: asks again.
    pub(super) fn suspect_primary(&self) {
        self.registry.suspect_primary();
    }

    fn start_if_idle(&self) {
        let won = self.registry.primary.send_if_modified(|seat| {
            let idle = matches!(seat, PrimaryLocation::Idle);
            if idle {
                *seat = PrimaryLocation::Awaited;
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
        self.suspicions.send_modify(|doubts| *doubts = doubts.wrapping_add(1));
    }

    /// A Sentinel has answered.
    fn record_view(&self, sentinel: &RedisAddress, view: SentinelView) {
        let mut views = self.views.lock();
        views.record_view(sentinel, view);
        self.publish(&views);
    }

    /// A Sentinel cannot be heard.
    fn record_loss(&self, sentinel: &RedisAddress, failure: RedisFailure) {
        let mut views = self.views.lock();
        views.record_loss(sentinel, failure);
        self.publish(&views);
    }

    fn publish(&self, views: &SentinelViews) {
        let seat = match views.newest() {
            Some(view) => PrimaryLocation::Known(view.primary.clone()),
            // As long as one of them may still answer, callers wait.
            None => match views.why_none(&self.named) {
                Some(failure) => PrimaryLocation::Unknown(failure.clone()),
                None => return,
            },
        };
        self.primary.send_if_modified(|before| {
            // A follower may outlive the watch on a runtime that ends. Nobody would correct its word.
            if matches!(before, PrimaryLocation::Idle) {
                return false;
            }
            let is_news = !matches!((&*before, &seat), (PrimaryLocation::Known(a), PrimaryLocation::Known(b)) if a == b);
            *before = seat;
            is_news
        });
    }

    /// Others have been named.
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

    /// A Sentinel says who it is.
    fn record_id(&self, sentinel: &RedisAddress, id: Option<String>) {
        let mut known = self.known.lock();
        let own = known.iter_mut().find(|one| one.address == *sentinel);
        own.into_iter().for_each(|own| own.id.clone_from(&id));
    }

    /// Whether a Sentinel is also followed by an address that was known earlier. One that the
    /// configuration names is followed in any case.
    fn is_duplicate(&self, sentinel: &RedisAddress) -> bool {
        let known = self.known.lock();
        let Some(at) = known.iter().position(|one| one.address == *sentinel) else { return false };
        let is_same = |one: &KnownSentinel| one.id.is_some() && one.id == known[at].id;
        !self.named.contains(sentinel) && known[..at].iter().any(is_same)
    }

    /// One that only others named, and that is not there or known otherwise. It is known again when
    /// it is named again.
    fn forget(&self, sentinel: &RedisAddress) {
        self.known.lock().retain(|one| one.address != *sentinel);
        self.views.lock().forget(sentinel);
    }
}

/// Follows all Sentinels there are.
struct SentinelWatcher(Arc<SentinelRegistry>);

impl SentinelWatcher {
    async fn run(self) {
        let desk = &self.0;
        let mut followers: JoinSet<RedisAddress> = JoinSet::new();
        let mut followed: Vec<RedisAddress> = Vec::new();
        loop {
            let known: Vec<_> = desk.known.lock().iter().map(|one| one.address.clone()).collect();
            for sentinel in
                known.into_iter().filter(|one| !followed.contains(one)).collect::<Vec<_>>()
            {
                followed.push(sentinel.clone());
                followers.spawn(SentinelFollower::new(Arc::clone(desk), sentinel).run());
            }
            tokio::select! {
                () = desk.more.notified() => {}
                Some(Ok(gone)) = followers.join_next() => {
                    followed.retain(|sentinel| *sentinel != gone);
                }
            }
        }
    }
}

/// The next caller starts another one, on a runtime that is still running.
impl Drop for SentinelWatcher {
    fn drop(&mut self) {
        *self.0.views.lock() = SentinelViews::default();
        self.0.primary.send_replace(PrimaryLocation::Idle);
    }
}

/// Sentinels to follow, including those that the configuration names.
const MOST_SENTINELS: usize = 64;
