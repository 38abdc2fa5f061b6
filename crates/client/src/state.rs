//! The state that all clones of a client share.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ClientEvent;
use crate::backoff::Jitter;
use crate::known_server::KnownServer;
use crate::known_servers::KnownServers;
use crate::rules::ClientRules;

/// The rules, and what is known of the servers.
pub(crate) struct ClientState {
    pub(crate) rules: ClientRules,
    servers: Mutex<KnownServers>,
    /// Locked before a server, if both are locked.
    jitter: Mutex<Jitter>,
}

impl ClientState {
    pub(crate) fn new(rules: &ClientRules) -> Self {
        let jitter = Mutex::new(Jitter::new(rules.seed, rules.backoff));
        Self { rules: rules.clone(), servers: Mutex::default(), jitter }
    }

    pub(crate) fn observe(&self, event: ClientEvent) {
        if let Some(observer) = &self.rules.observer {
            observer.observe(&event);
        }
    }

    /// The known state of the server that a request goes to.
    pub(crate) fn server(&self, head: &Parts, now: Instant) -> Arc<Mutex<KnownServer>> {
        let scope = (self.rules.scope)(head);
        self.servers.lock().get(scope, &self.rules, now)
    }

    /// Whether to refuse a call locally.
    pub(crate) fn throttles(&self, server: &Mutex<KnownServer>, now: Instant) -> bool {
        let Some(rule) = &self.rules.throttle else { return false };
        let mut jitter = self.jitter.lock();
        server.lock().acceptance_window.refuses(now, rule, &mut jitter)
    }

    /// Reserves a turn for an attempt of a call; the error is the wait if a refusal requires more than
    /// `patience`.
    pub(crate) fn reserve(
        &self,
        server: &Mutex<KnownServer>,
        attempt: u32,
        patience: Duration,
        now: Instant,
    ) -> Result<Instant, Duration> {
        let mut jitter = self.jitter.lock();
        server.lock().pacer.reserve(now, patience, jitter.attempt(attempt))
    }

    /// The wait before another attempt without `Retry-After`.
    pub(crate) fn backoff(&self, attempt: u32) -> Duration {
        self.jitter.lock().attempt(attempt).backoff_wait()
    }
}
