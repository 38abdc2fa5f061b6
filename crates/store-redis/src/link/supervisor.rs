//! Keeps one connection up: dials, replaces it when it fails or grows old, and drains the old one.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::backoff::{ConnectionBackoff, jitter};
use super::failure::RedisFailure;
use super::lane::{LaneChannel, LaneState};
use super::shared_connection::{ConnectionDriver, ConnectionFault, SharedConnection};
use crate::url::RedisAddress;

/// Keeps one connection up. Nothing else dials for the lane, so there is one attempt at a time.
pub(super) struct ConnectionSupervisor {
    channel: Arc<LaneChannel>,
    backoff: ConnectionBackoff,
    /// The address that it dialed last.
    tried: Option<RedisAddress>,
    /// Connections that have been replaced but still have answers to deliver.
    leaving: JoinSet<()>,
}

/// The connection in use.
struct SupervisedConnection {
    connection: Arc<SharedConnection>,
    driver: ConnectionDriver,
}

/// Why a connection is no longer used.
enum ConnectionEnd {
    Closed,
    Faulty(RedisFailure),
    Silent,
    Old,
    Moved,
}

impl ConnectionSupervisor {
    pub(super) fn new(channel: Arc<LaneChannel>) -> Self {
        Self {
            channel,
            backoff: ConnectionBackoff::default(),
            tried: None,
            leaving: JoinSet::new(),
        }
    }

    pub(super) async fn run(mut self) {
        let mut current = self.connect().await;
        loop {
            self.publish(LaneState::Up(Arc::clone(&current.connection)));
            let end = self.until_end(&mut current).await;
            while self.leaving.try_join_next().is_some() {}
            current = match end {
                ConnectionEnd::Old => self.renew(current).await,
                ConnectionEnd::Silent => self.revive(current).await,
                ConnectionEnd::Faulty(failure) => self.replace(current, failure).await,
                ConnectionEnd::Moved => self.follow(current).await,
                ConnectionEnd::Closed => {
                    let message = format!(
                        "{}: the server closed the connection",
                        current.connection.address()
                    );
                    let failure = RedisFailure::not_run(StoreErrorKind::Unreachable, message);
                    self.replace(current, failure).await
                }
            };
        }
    }

    fn publish(&self, state: LaneState) {
        self.channel.state.send_replace(state);
    }

    /// Dials until it works, and publishes each failure to callers.
    async fn connect(&mut self) -> SupervisedConnection {
        loop {
            match self.attempt().await {
                Ok(current) => return current,
                Err(failure) => self.publish(LaneState::Down(failure)),
            }
        }
    }

    /// Dials once, after the pause that earlier failures call for.
    async fn attempt(&mut self) -> Result<SupervisedConnection, RedisFailure> {
        self.pause().await;
        match self.dial().await {
            Ok((connection, driver)) => {
                Ok(SupervisedConnection { connection: Arc::new(connection), driver })
            }
            Err(failure) => {
                self.backoff.record_failure(failure.kind);
                self.channel.route.suspect_topology();
                Err(failure)
            }
        }
    }

    async fn dial(&mut self) -> Result<(SharedConnection, ConnectionDriver), RedisFailure> {
        let address = self.channel.route.address().await?;
        let address = self.tried.insert(address);
        self.channel.route.dial(address).await
    }

    /// Waits for the backoff, or until the server turns out to be elsewhere.
    async fn pause(&mut self) {
        let pause = sleep(self.backoff.pause());
        let Some(tried) = &self.tried else { return pause.await };
        tokio::select! {
            () = pause => {}
            () = self.channel.route.wait_until_moved(tried) => self.backoff.reset(),
        }
    }

    /// Waits until there is a reason to replace the connection.
    async fn until_end(&self, current: &mut SupervisedConnection) -> ConnectionEnd {
        let most = self.channel.route.max_age();
        let age = jitter(most - most / 5, most.saturating_add(most / 5));
        let left = age.saturating_sub(current.connection.age());
        tokio::select! {
            () = &mut current.driver => ConnectionEnd::Closed,
            end = self.until_fault(&current.connection) => end,
            () = self.channel.route.wait_until_moved(current.connection.address()) => ConnectionEnd::Moved,
            () = sleep(left) => ConnectionEnd::Old,
        }
    }

    async fn until_fault(&self, connection: &SharedConnection) -> ConnectionEnd {
        loop {
            match connection.fault() {
                Some(ConnectionFault::Demoted(failure) | ConnectionFault::Mismatched(failure)) => {
                    return ConnectionEnd::Faulty(failure.clone());
                }
                Some(ConnectionFault::Silent) => return ConnectionEnd::Silent,
                // The notification may have been for the previous connection.
                None => self.channel.bell.notified().await,
            }
        }
    }

    /// A new connection, after the old one failed. If the old one had been up for a while, the new one
    /// is dialed immediately, and callers wait for it. Otherwise that counts as another failure: a
    /// server that accepts connections only to drop them must not be dialed in a loop.
    async fn replace(
        &mut self,
        old: SupervisedConnection,
        failure: RedisFailure,
    ) -> SupervisedConnection {
        if old.connection.age() >= STEADY {
            self.backoff.reset();
            self.publish(LaneState::Dialing);
        } else {
            self.backoff.record_failure(failure.kind);
            self.publish(LaneState::Down(failure));
        }
        self.channel.route.suspect_topology();
        self.retire(old, DRAIN_TIMEOUT);
        self.connect().await
    }

    /// A new connection, because the server is elsewhere now. What the old server still counts may be
    /// lost, so callers leave it immediately.
    async fn follow(&mut self, old: SupervisedConnection) -> SupervisedConnection {
        self.backoff.reset();
        self.publish(LaneState::Dialing);
        self.retire(old, SHORT_DRAIN_TIMEOUT);
        self.connect().await
    }

    /// Waits for the silent connection to answer or for a new one, whichever comes first: the whole
    /// server may hang, or just this connection. Callers are turned away meanwhile, since their calls
    /// would only run later, when they no longer wait.
    async fn revive(&mut self, old: SupervisedConnection) -> SupervisedConnection {
        let message = format!("{}: the server does not answer", old.connection.address());
        self.publish(LaneState::Down(RedisFailure::not_run(StoreErrorKind::Timeout, message)));
        self.backoff.record_failure(StoreErrorKind::Timeout);
        self.channel.route.suspect_topology();
        let revived = Arc::new(old.connection.with_clean_record());
        tokio::select! {
            biased;
            () = revived.wait_for_answer() => {}
            fresh = self.connect() => return fresh,
        }
        self.backoff.reset();
        SupervisedConnection { connection: revived, driver: old.driver }
    }

    /// A new connection to replace one that has grown old, which is used until then.
    async fn renew(&mut self, mut old: SupervisedConnection) -> SupervisedConnection {
        let connection = Arc::clone(&old.connection);
        self.backoff.reset();
        let fresh = tokio::select! {
            fresh = self.connect_beside(&connection) => Some(fresh),
            () = &mut old.driver => None,
        };
        match fresh {
            Some(fresh) => {
                self.retire(old, DRAIN_TIMEOUT);
                fresh
            }
            None => {
                self.publish(LaneState::Dialing);
                self.connect().await
            }
        }
    }

    /// Dials until it works. Failures are not published as long as callers can use the old connection.
    async fn connect_beside(&mut self, old: &SharedConnection) -> SupervisedConnection {
        loop {
            match self.attempt().await {
                Ok(fresh) => return fresh,
                Err(_) if old.is_usable() => {}
                Err(failure) => self.publish(LaneState::Down(failure)),
            }
        }
    }

    /// Gives a connection time to deliver the answers that are still due.
    fn retire(&mut self, old: SupervisedConnection, patience: Duration) {
        let SupervisedConnection { connection, driver } = old;
        drop(connection);
        self.leaving.spawn(async move {
            let _ = timeout(patience, driver).await;
        });
    }
}

/// Lets the next caller start another supervisor, on a runtime that is still running.
impl Drop for ConnectionSupervisor {
    fn drop(&mut self) {
        self.publish(LaneState::Idle);
    }
}

/// A connection that was up for this long was a good one.
const STEADY: Duration = Duration::from_secs(1);
/// How long a replaced connection may take to deliver its last answers.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for a connection to a server that is no longer the right one, and may not answer at all.
const SHORT_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);
