//! What all clones of a client know together.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Event;
use crate::backoff::Jitter;
use crate::rules::Rules;
use crate::server::Server;

/// The rules, and what servers have said so far.
pub(crate) struct Shared {
    pub(crate) rules: Rules,
    servers: Mutex<HashMap<String, Arc<Mutex<Server>>>>,
    /// Locked before a server, where both are.
    jitter: Mutex<Jitter>,
}

impl Shared {
    pub(crate) fn new(rules: &Rules) -> Self {
        let jitter = Mutex::new(Jitter::new(rules.seed, rules.backoff));
        Self { rules: rules.clone(), servers: Mutex::default(), jitter }
    }

    pub(crate) fn tell(&self, event: Event) {
        if let Some(observer) = &self.rules.observer {
            observer.observe(&event);
        }
    }

    /// What is known of the server that a request goes to.
    pub(crate) fn server(&self, head: &Parts, now: Instant) -> Arc<Mutex<Server>> {
        let scope = (self.rules.scope)(head);
        let mut servers = self.servers.lock();
        let has_no_room =
            |servers: &HashMap<_, _>| servers.len() >= MAX_SCOPES && !servers.contains_key(&scope);
        if has_no_room(&servers) {
            // One that a call holds is not idle: its server would have two.
            servers.retain(|_, it| Arc::strong_count(it) > 1 || !it.lock().is_idle(now));
        }
        // Where there are too many, those that come last are one.
        let scope = if has_no_room(&servers) { String::new() } else { scope };
        let server = || Arc::new(Mutex::new(Server::new(&self.rules)));
        Arc::clone(servers.entry(scope).or_insert_with(server))
    }

    /// Whether a call is to be refused here.
    pub(crate) fn throttles(&self, server: &Mutex<Server>, now: Instant) -> bool {
        let Some(rule) = &self.rules.throttle else { return false };
        let mut jitter = self.jitter.lock();
        server.lock().recent.refuses(now, rule, &mut jitter)
    }

    /// A turn for another attempt of a call, unless a refusal asks for more patience.
    pub(crate) fn reserve(
        &self,
        server: &Mutex<Server>,
        attempt: u32,
        patience: Duration,
        now: Instant,
    ) -> Result<Instant, Duration> {
        let mut jitter = self.jitter.lock();
        server.lock().pacer.reserve(now, patience, jitter.attempt(attempt))
    }

    /// The wait before another attempt, when the server does not say.
    pub(crate) fn backoff(&self, attempt: u32) -> Duration {
        self.jitter.lock().attempt(attempt).unasked()
    }
}

/// More servers than a program talks to at a time.
const MAX_SCOPES: usize = 1_024;
