//! Keeps one connection up.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::backoff::{Backoff, jitter};
use super::failure::Failure;
use super::lane::{Post, State};
use super::live::{Driver, Fault, Live};
use crate::url::Address;

/// Keeps one connection up. Nothing else dials for it, so there is one attempt at a time.
pub(super) struct Supervisor {
    post: Arc<Post>,
    backoff: Backoff,
    /// Where it dialed last.
    tried: Option<Address>,
    /// Connections that have been replaced but still owe answers.
    leaving: JoinSet<()>,
}

/// The connection in use.
struct Current {
    live: Arc<Live>,
    driver: Driver,
}

/// Why a connection is no longer used.
enum End {
    Closed,
    Faulty(Failure),
    Silent,
    Old,
    Moved,
}

impl Supervisor {
    pub(super) fn new(post: Arc<Post>) -> Self {
        Self { post, backoff: Backoff::default(), tried: None, leaving: JoinSet::new() }
    }

    pub(super) async fn run(mut self) {
        let mut current = self.connect().await;
        loop {
            self.publish(State::Up(Arc::clone(&current.live)));
            let end = self.until_end(&mut current).await;
            while self.leaving.try_join_next().is_some() {}
            current = match end {
                End::Old => self.renew(current).await,
                End::Silent => self.revive(current).await,
                End::Faulty(failure) => self.replace(current, failure).await,
                End::Moved => self.follow(current).await,
                End::Closed => {
                    let message = format!("{}: it closed the connection", current.live.address());
                    let failure = Failure::not_run(StoreErrorKind::Unreachable, message);
                    self.replace(current, failure).await
                }
            };
        }
    }

    fn publish(&self, state: State) {
        self.post.state.send_replace(state);
    }

    /// Dials until it works. Callers are told about each failure.
    async fn connect(&mut self) -> Current {
        loop {
            match self.attempt().await {
                Ok(current) => return current,
                Err(failure) => self.publish(State::Down(failure)),
            }
        }
    }

    /// Dials once, after the pause that earlier failures call for.
    async fn attempt(&mut self) -> Result<Current, Failure> {
        self.pause().await;
        match self.dial().await {
            Ok((live, driver)) => Ok(Current { live: Arc::new(live), driver }),
            Err(failure) => {
                self.backoff.failed(failure.kind);
                self.post.route.doubt();
                Err(failure)
            }
        }
    }

    async fn dial(&mut self) -> Result<(Live, Driver), Failure> {
        let address = self.post.route.address().await?;
        let address = self.tried.insert(address);
        self.post.route.dial(address).await
    }

    /// Ends early if the server turns out to be elsewhere.
    async fn pause(&mut self) {
        let pause = sleep(self.backoff.pause());
        let Some(tried) = &self.tried else { return pause.await };
        tokio::select! {
            () = pause => {}
            () = self.post.route.elsewhere(tried) => self.backoff.reset(),
        }
    }

    /// Waits until there is a reason to replace the connection.
    async fn until_end(&self, current: &mut Current) -> End {
        let most = self.post.route.max_age();
        let age = jitter(most - most / 5, most.saturating_add(most / 5));
        let left = age.saturating_sub(current.live.age());
        tokio::select! {
            () = &mut current.driver => End::Closed,
            end = self.until_fault(&current.live) => end,
            () = self.post.route.elsewhere(current.live.address()) => End::Moved,
            () = sleep(left) => End::Old,
        }
    }

    async fn until_fault(&self, live: &Live) -> End {
        loop {
            match live.fault() {
                Some(Fault::Demoted(failure) | Fault::Crossed(failure)) => {
                    return End::Faulty(failure.clone());
                }
                Some(Fault::Silent) => return End::Silent,
                // The bell may still be ringing for the previous connection.
                None => self.post.bell.notified().await,
            }
        }
    }

    /// A new connection, after the old one failed. If the old one had stood for a while, the new
    /// one is made at once, and callers wait for it. Otherwise it counts as one more failure: a
    /// server that accepts connections only to drop them must not be dialed in a loop.
    async fn replace(&mut self, old: Current, failure: Failure) -> Current {
        if old.live.age() >= STEADY {
            self.backoff.reset();
            self.publish(State::Dialing);
        } else {
            self.backoff.failed(failure.kind);
            self.publish(State::Down(failure));
        }
        self.post.route.doubt();
        self.retire(old, FAREWELL);
        self.connect().await
    }

    /// A new connection, because the server is elsewhere now. What the old one still counts may be
    /// lost, so it is left at once.
    async fn follow(&mut self, old: Current) -> Current {
        self.backoff.reset();
        self.publish(State::Dialing);
        self.retire(old, SHORT_FAREWELL);
        self.connect().await
    }

    /// A server that does not answer may hang as a whole, or just this connection may. Callers are
    /// turned away meanwhile: whatever they sent would only run later, when nobody waits for it any
    /// more.
    async fn revive(&mut self, old: Current) -> Current {
        let message = format!("{}: it does not answer", old.live.address());
        self.publish(State::Down(Failure::not_run(StoreErrorKind::Timeout, message)));
        self.backoff.failed(StoreErrorKind::Timeout);
        self.post.route.doubt();
        let pardoned = Arc::new(old.live.pardoned());
        tokio::select! {
            biased;
            () = pardoned.until_it_answers() => {}
            fresh = self.connect() => return fresh,
        }
        self.backoff.reset();
        Current { live: pardoned, driver: old.driver }
    }

    /// A new connection to replace one that has grown old, which is used until then.
    async fn renew(&mut self, mut old: Current) -> Current {
        let live = Arc::clone(&old.live);
        self.backoff.reset();
        let fresh = tokio::select! {
            fresh = self.connect_beside(&live) => Some(fresh),
            () = &mut old.driver => None,
        };
        match fresh {
            Some(fresh) => {
                self.retire(old, FAREWELL);
                fresh
            }
            None => {
                self.publish(State::Dialing);
                self.connect().await
            }
        }
    }

    /// Dials until it works. Callers are not told about failures as long as they can use the old
    /// connection.
    async fn connect_beside(&mut self, old: &Live) -> Current {
        loop {
            match self.attempt().await {
                Ok(fresh) => return fresh,
                Err(_) if old.is_usable() => {}
                Err(failure) => self.publish(State::Down(failure)),
            }
        }
    }

    /// Gives a connection time to deliver what it still owes.
    fn retire(&mut self, old: Current, patience: Duration) {
        let Current { live, driver } = old;
        drop(live);
        self.leaving.spawn(async move {
            let _ = timeout(patience, driver).await;
        });
    }
}

/// The next caller starts another one, on a runtime that is still running.
impl Drop for Supervisor {
    fn drop(&mut self) {
        self.publish(State::Idle);
    }
}

/// A connection that stood for this long was a good one.
const STEADY: Duration = Duration::from_secs(1);
/// How long a replaced connection may take to deliver its last answers.
const FAREWELL: Duration = Duration::from_secs(2);
/// The same for one to a server that is not the right one any more, and may not answer at all: the
/// next calls wait for it.
const SHORT_FAREWELL: Duration = Duration::from_millis(250);
