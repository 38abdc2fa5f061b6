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

use self::follower::Follower;
use self::views::{View, Views};
use super::failure::Failure;
use super::task::Task;
use crate::RedisConfig;
use crate::url::{Address, Login};

/// The Sentinels of one service. Several stores may share them, on runtimes of their own.
#[derive(Debug)]
pub(crate) struct Sentinels {
    desk: Arc<Desk>,
    watch: Task,
}

/// What is known, and who wants to know.
#[derive(Debug)]
struct Desk {
    config: Arc<RedisConfig>,
    service: String,
    login: Login,
    /// Those that the configuration names. They are never given up.
    named: Vec<Address>,
    /// Those, and the ones that others named.
    known: Mutex<Vec<Known>>,
    views: Mutex<Views>,
    seat: watch::Sender<Seat>,
    /// How often somebody had a reason to ask again.
    doubts: watch::Sender<u64>,
    /// Rung when another Sentinel has become known.
    more: Notify,
}

#[derive(Debug)]
struct Known {
    address: Address,
    /// Its own name for itself, once it has answered: it may be known by two addresses.
    id: Option<String>,
}

/// Who is the primary.
#[derive(Clone, Debug)]
enum Seat {
    /// Nobody has asked yet, or the runtime of those who did is gone.
    Idle,
    /// Being asked for.
    Awaited,
    Taken(Address),
    /// No Sentinel says, and this is what the last one that failed met.
    Unknown(Failure),
}

impl Sentinels {
    pub(super) fn new(
        service: &str,
        login: &Login,
        named: &[Address],
        config: &RedisConfig,
    ) -> Self {
        let known = |address: &Address| Known { address: address.clone(), id: None };
        let desk = Desk {
            config: Arc::new(config.clone()),
            service: service.to_owned(),
            login: login.clone(),
            named: named.to_vec(),
            known: Mutex::new(named.iter().map(known).collect()),
            views: Mutex::default(),
            seat: watch::Sender::new(Seat::Idle),
            doubts: watch::Sender::new(0),
            more: Notify::new(),
        };
        Self { desk: Arc::new(desk), watch: Task::default() }
    }

    /// Where the primary is: right away, or once a Sentinel has said so.
    pub(super) async fn primary(&self) -> Result<Address, Failure> {
        let mut seats = self.desk.seat.subscribe();
        loop {
            self.start_if_idle();
            match &*seats.borrow_and_update() {
                Seat::Taken(address) => return Ok(address.clone()),
                Seat::Unknown(failure) => return Err(failure.clone()),
                Seat::Idle | Seat::Awaited => {}
            }
            if seats.changed().await.is_err() {
                let message = "the Sentinels were given up";
                return Err(Failure::not_run(StoreErrorKind::Unreachable, message));
            }
        }
    }

    /// Returns when the primary is somewhere else.
    pub(super) async fn elsewhere(&self, address: &Address) {
        let mut seats = self.desk.seat.subscribe();
        loop {
            self.start_if_idle();
            let seat = seats.borrow_and_update().clone();
            if matches!(&seat, Seat::Taken(primary) if primary != address) {
                return;
            }
            if seats.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The primary may be another by now: asks again.
    pub(super) fn doubt(&self) {
        self.desk.doubt();
    }

    fn start_if_idle(&self) {
        let won = self.desk.seat.send_if_modified(|seat| {
            let idle = matches!(seat, Seat::Idle);
            if idle {
                *seat = Seat::Awaited;
            }
            idle
        });
        if won {
            self.watch.start(Watch(Arc::clone(&self.desk)).run());
        }
    }
}

impl Desk {
    fn doubt(&self) {
        self.doubts.send_modify(|doubts| *doubts = doubts.wrapping_add(1));
    }

    /// A Sentinel has answered.
    fn told(&self, sentinel: &Address, view: View) {
        let mut views = self.views.lock();
        views.told(sentinel, view);
        self.publish(&views);
    }

    /// A Sentinel cannot be heard.
    fn lost(&self, sentinel: &Address, failure: Failure) {
        let mut views = self.views.lock();
        views.lost(sentinel, failure);
        self.publish(&views);
    }

    fn publish(&self, views: &Views) {
        let seat = match views.newest() {
            Some(view) => Seat::Taken(view.primary.clone()),
            // As long as one of them may still answer, callers wait.
            None => match views.why_none(&self.named) {
                Some(failure) => Seat::Unknown(failure.clone()),
                None => return,
            },
        };
        self.seat.send_if_modified(|before| {
            // A follower may outlive the watch on a runtime that ends. Nobody would correct its word.
            if matches!(before, Seat::Idle) {
                return false;
            }
            let is_news = !matches!((&*before, &seat), (Seat::Taken(a), Seat::Taken(b)) if a == b);
            *before = seat;
            is_news
        });
    }

    /// Others have been named.
    fn meet(&self, others: Vec<Address>) {
        let mut known = self.known.lock();
        for address in others {
            let is_new = known.iter().all(|one| one.address != address);
            if is_new && known.len() < MOST_SENTINELS {
                known.push(Known { address, id: None });
                self.more.notify_one();
            }
        }
    }

    /// A Sentinel says who it is.
    fn introduce(&self, sentinel: &Address, id: Option<String>) {
        let mut known = self.known.lock();
        let own = known.iter_mut().find(|one| one.address == *sentinel);
        own.into_iter().for_each(|own| own.id.clone_from(&id));
    }

    /// Whether a Sentinel is also followed by an address that was known earlier. One that the
    /// configuration names is followed in any case.
    fn is_twin(&self, sentinel: &Address) -> bool {
        let known = self.known.lock();
        let Some(at) = known.iter().position(|one| one.address == *sentinel) else { return false };
        let is_same = |one: &Known| one.id.is_some() && one.id == known[at].id;
        !self.named.contains(sentinel) && known[..at].iter().any(is_same)
    }

    /// One that only others named, and that is not there or known otherwise. It is known again when
    /// it is named again.
    fn forget(&self, sentinel: &Address) {
        self.known.lock().retain(|one| one.address != *sentinel);
        self.views.lock().forget(sentinel);
    }
}

/// Follows all Sentinels there are.
struct Watch(Arc<Desk>);

impl Watch {
    async fn run(self) {
        let desk = &self.0;
        let mut followers: JoinSet<Address> = JoinSet::new();
        let mut followed: Vec<Address> = Vec::new();
        loop {
            let known: Vec<_> = desk.known.lock().iter().map(|one| one.address.clone()).collect();
            for sentinel in
                known.into_iter().filter(|one| !followed.contains(one)).collect::<Vec<_>>()
            {
                followed.push(sentinel.clone());
                followers.spawn(Follower::new(Arc::clone(desk), sentinel).run());
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
impl Drop for Watch {
    fn drop(&mut self) {
        *self.0.views.lock() = Views::default();
        self.0.seat.send_replace(Seat::Idle);
    }
}

/// Sentinels to follow, including those that the configuration names.
const MOST_SENTINELS: usize = 64;
