//! What all clones of a client know together.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::backoff::Jitter;
use crate::pacer::Pacer;
use crate::replay::is_idempotent;
use crate::throttle::Recent;
use crate::told::Told;
use crate::{Backoff, Budget, Event, Observer, Throttle};

type Scope = Arc<dyn Fn(&Parts) -> String + Send + Sync>;
type RepeatIf = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

/// What a layer was told.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) max_retries: u32,
    pub(crate) max_wait: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) budget: Arc<Budget>,
    pub(crate) throttle: Option<Throttle>,
    pub(crate) paces: bool,
    pub(crate) scope: Scope,
    pub(crate) repeat_if: RepeatIf,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) seed: Option<u64>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            max_retries: 5,
            max_wait: Duration::from_secs(60),
            backoff: Backoff::default(),
            budget: Arc::default(),
            throttle: None,
            paces: true,
            scope: Arc::new(authority),
            repeat_if: Arc::new(is_idempotent),
            observer: None,
            seed: None,
        }
    }
}

fn authority(head: &Parts) -> String {
    head.uri.authority().map_or_else(String::new, ToString::to_string)
}

/// The rules, and what servers have said so far.
pub(crate) struct Shared {
    pub(crate) rules: Rules,
    known: Mutex<Known>,
}

struct Known {
    pacers: HashMap<String, Pacer>,
    recent: Recent,
    jitter: Jitter,
}

impl Shared {
    pub(crate) fn new(rules: &Rules) -> Self {
        let jitter = Jitter::new(rules.seed, rules.backoff);
        let known = Known { pacers: HashMap::new(), recent: Recent::default(), jitter };
        Self { rules: rules.clone(), known: Mutex::new(known) }
    }

    pub(crate) fn tell(&self, event: Event) {
        if let Some(observer) = &self.rules.observer {
            observer.observe(&event);
        }
    }

    /// Whether a call is to be refused here.
    pub(crate) fn throttles(&self, now: Instant) -> bool {
        let Some(rule) = &self.rules.throttle else { return false };
        let Known { recent, jitter, .. } = &mut *self.known.lock();
        recent.refuses(now, rule, jitter)
    }

    /// When a request may leave.
    pub(crate) fn reserve(&self, scope: &str, attempt: u32, now: Instant) -> Instant {
        let mut known = self.known.lock();
        let (pacer, jitter) = known.pacer(scope, now);
        match pacer.blocked_until(now) {
            None if !self.rules.paces => now,
            _ => pacer.reserve(now, jitter.attempt(attempt)),
        }
    }

    /// Until when a refusal holds.
    pub(crate) fn blocked_until(&self, scope: &str, now: Instant) -> Option<Instant> {
        self.known.lock().pacer(scope, now).0.blocked_until(now)
    }

    /// The wait before another attempt, when the server does not say.
    pub(crate) fn backoff(&self, attempt: u32) -> Duration {
        self.known.lock().jitter.attempt(attempt).unasked()
    }

    pub(crate) fn learn(&self, scope: &str, told: &Told, now: Instant) {
        let mut known = self.known.lock();
        known.pacer(scope, now).0.learn(told, now);
        if let Some(rule) = &self.rules.throttle
            && !told.is_refused
        {
            known.recent.accepted(now, rule);
        }
    }
}

impl Known {
    fn pacer(&mut self, scope: &str, now: Instant) -> (&mut Pacer, &mut Jitter) {
        if self.pacers.len() >= MAX_SCOPES && !self.pacers.contains_key(scope) {
            self.pacers.retain(|_, pacer| !pacer.is_idle(now));
        }
        // Where there are too many, those that come last are one.
        let is_full = self.pacers.len() >= MAX_SCOPES && !self.pacers.contains_key(scope);
        let scope = if is_full { "" } else { scope };
        (self.pacers.entry(scope.to_owned()).or_default(), &mut self.jitter)
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("max_retries", &self.max_retries)
            .field("max_wait", &self.max_wait)
            .field("backoff", &self.backoff)
            .field("throttle", &self.throttle)
            .field("paces", &self.paces)
            .finish_non_exhaustive()
    }
}

/// More servers than a program talks to at a time.
const MAX_SCOPES: usize = 1_024;
