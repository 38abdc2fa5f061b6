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
use crate::{Backoff, Budget, Event, Observer, Throttle};

type Scope = Arc<dyn Fn(&Parts) -> String + Send + Sync>;
type RepeatIf = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

/// What a layer was told.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) max_retries: u32,
    pub(crate) max_wait: Duration,
    pub(crate) max_block: Duration,
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
            max_wait: Duration::from_secs(90),
            max_block: Duration::from_secs(86_400),
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
    pacers: HashMap<String, Arc<Mutex<Pacer>>>,
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

    /// What is known of the server that a request goes to.
    pub(crate) fn pacer(&self, head: &Parts, now: Instant) -> Arc<Mutex<Pacer>> {
        let scope = (self.rules.scope)(head);
        self.known.lock().pacer(scope, &self.rules, now)
    }

    /// A turn for another attempt of a call, unless a refusal asks for more patience.
    pub(crate) fn reserve(
        &self,
        pacer: &Mutex<Pacer>,
        attempt: u32,
        patience: Duration,
        now: Instant,
    ) -> Result<Instant, Duration> {
        let mut known = self.known.lock();
        pacer.lock().reserve(now, patience, known.jitter.attempt(attempt))
    }

    /// The wait before another attempt, when the server does not say.
    pub(crate) fn backoff(&self, attempt: u32) -> Duration {
        self.known.lock().jitter.attempt(attempt).unasked()
    }

    /// A call was not refused.
    pub(crate) fn accepted(&self, now: Instant) {
        if let Some(rule) = &self.rules.throttle {
            self.known.lock().recent.accepted(now, rule);
        }
    }
}

impl Known {
    fn pacer(&mut self, scope: String, rules: &Rules, now: Instant) -> Arc<Mutex<Pacer>> {
        let has_no_room =
            |known: &Self| known.pacers.len() >= MAX_SCOPES && !known.pacers.contains_key(&scope);
        if has_no_room(self) {
            // One that a call holds is not idle: its server would have two.
            self.pacers
                .retain(|_, pacer| Arc::strong_count(pacer) > 1 || !pacer.lock().is_idle(now));
        }
        // Where there are too many, those that come last are one.
        let scope = if has_no_room(self) { String::new() } else { scope };
        let pacer = || Arc::new(Mutex::new(Pacer::new(rules.paces, rules.max_block)));
        Arc::clone(self.pacers.entry(scope).or_insert_with(pacer))
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("max_retries", &self.max_retries)
            .field("max_wait", &self.max_wait)
            .field("max_block", &self.max_block)
            .field("backoff", &self.backoff)
            .field("throttle", &self.throttle)
            .field("paces", &self.paces)
            .finish_non_exhaustive()
    }
}

/// More servers than a program talks to at a time.
const MAX_SCOPES: usize = 1_024;
