//! What the transports share: the limiter, and the state of its configuration.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use http::HeaderMap;
use parking_lot::{Mutex, MutexGuard};
use tidegate::config::{PlannedPolicy, Problems, Source};
use tidegate::{MemoryStore, Plan, PlanLimiter, Span, Store, Timestamp, Usage};

use crate::Place;
use crate::amendments::Making;
use crate::followers::Followers;
use crate::logins::FailedLogins;
use crate::metrics::{self, ListenerKind, MetricSource, Metrics, RefusalReason};
use crate::overflows::Overflows;
use crate::room::Room;
use crate::top::KeyMarks;
use crate::trace::{Span as TraceSpan, TraceParent, Tracer};
use crate::transport::resp::RedisClients;

/// A limiter, the counts about it, whether the server is stopping, and what became of the last
/// reload.
#[derive(Debug)]
pub struct App<S = MemoryStore> {
    limiter: PlanLimiter<S>,
    metrics: Metrics,
    /// Whose metrics are on the page as well.
    guest: OnceLock<Arc<dyn MetricSource>>,
    tracer: Option<Tracer>,
    making: Mutex<Making>,
    /// Whose turn it is to look at the board: what was seen first is obeyed first.
    turn: tokio::sync::Mutex<()>,
    usage: Mutex<(Timestamp, Usage)>,
    overflows: Mutex<Overflows>,
    shows_keys: bool,
    draining: AtomicBool,
    reloads: Reloads,
    followers: Followers,
    redis_clients: RedisClients,
    logins: FailedLogins,
    /// Of each listener, by where it listens.
    rooms: Mutex<Vec<(String, Arc<Room>)>>,
}

/// How reloads went.
#[derive(Debug, Default)]
struct Reloads {
    done: AtomicU64,
    refused: AtomicU64,
    /// What is wrong with the file that would be in use if it were right.
    problem: Mutex<Option<String>>,
    /// What is wrong with a file that it names.
    file_problem: Mutex<Option<String>>,
}

impl<S: Store> App<S> {
    /// Serves a plan. Without its text it stays as it is.
    pub fn new(plan: Plan, store: S) -> Self {
        Self::with(PlanLimiter::new(plan, store), None)
    }

    fn with(limiter: PlanLimiter<S>, source: Option<Source>) -> Self {
        Self {
            metrics: Metrics::new(
                &limiter.plan(),
                KeyMarks::under(limiter.store().shared_secret()),
            ),
            guest: OnceLock::new(),
            limiter,
            tracer: None,
            making: Mutex::new(Making::of(source)),
            turn: tokio::sync::Mutex::default(),
            usage: Mutex::default(),
            overflows: Mutex::default(),
            shows_keys: false,
            draining: AtomicBool::new(false),
            reloads: Reloads::default(),
            followers: Followers::default(),
            redis_clients: RedisClients::new(),
            logins: FailedLogins::new(),
            rooms: Mutex::default(),
        }
    }

    /// The policy of a server without a configuration: `demo`, 10 a minute for each `key`.
    pub fn demo(store: S) -> Result<Self, Problems> {
        let source = Source::new("demo", DEMO)?;
        Self::load(&source, store)
    }

    /// Serves what a user wrote, or reports everything that is wrong with it.
    pub fn load(source: &Source, store: S) -> Result<Self, Problems> {
        Ok(Self::with(PlanLimiter::load(source, store)?, Some(source.clone())))
    }

    /// How many instances share the limits, for when the store does not answer.
    #[must_use]
    pub fn expected_nodes(self, nodes: u32) -> Self {
        Self { limiter: self.limiter.expected_nodes(nodes), ..self }
    }

    /// Keeps the text of the most frequent keys, and shows it to operators. By default only
    /// fingerprints are kept.
    #[must_use]
    pub fn showing_keys(self) -> Self {
        let app = Self { shows_keys: true, ..self };
        // Rebuilt from the same text, which was valid.
        let source = app.making.lock().source.clone();
        if let Some(source) = source {
            let _ = app.reload(&source);
        }
        app
    }

    /// Traces requests.
    #[must_use]
    pub fn traced_by(self, tracer: Tracer) -> Self {
        Self { tracer: Some(tracer), ..self }
    }

    /// What traces requests, if anything does.
    pub const fn tracer(&self) -> Option<&Tracer> {
        self.tracer.as_ref()
    }

    /// A span for a request with these headers, if it is to be traced.
    pub(crate) fn begin_span(
        &self,
        name: &'static str,
        headers: &HeaderMap,
    ) -> Option<Box<TraceSpan>> {
        self.tracer.as_ref()?.begin(name, TraceParent::of(headers))
    }

    /// Ends it, if there is one.
    pub(crate) fn end_span(&self, span: Option<Box<TraceSpan>>) {
        if let (Some(span), Some(tracer)) = (span, &self.tracer) {
            tracer.end(span);
        }
    }

    /// The limiter that decides.
    pub const fn limiter(&self) -> &PlanLimiter<S> {
        &self.limiter
    }

    /// Everything that is counted, in Prometheus format.
    pub async fn metrics_page(&self) -> String {
        metrics::page(self).await
    }

    /// Has somebody's metrics on that page as well. All workers may say so: the first is heard.
    pub fn also_show(&self, guest: Arc<dyn MetricSource>) {
        let _ = self.guest.set(guest);
    }

    /// Counts a request that got no decision.
    pub fn count_refusal(&self, listener: ListenerKind, reason: RefusalReason) {
        self.metrics.refused().count(listener, reason);
    }

    pub(crate) fn guest(&self) -> Option<&Arc<dyn MetricSource>> {
        self.guest.get()
    }

    /// Shows how many connections a listener has.
    pub(crate) fn also_count(&self, place: &Place, room: &Arc<Room>) {
        self.rooms.lock().push((place.to_string(), Arc::clone(room)));
    }

    /// Whether a connection from there is of a proxy, which speaks for many clients.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        let (plan, peer) = (self.limiter.plan(), peer.to_canonical());
        plan.settings().trusted_proxies().iter().any(|it| it.contains(peer.into()))
    }

    pub(crate) fn rooms(&self) -> Vec<(String, Arc<Room>)> {
        self.rooms.lock().clone()
    }

    /// Decides by another plan from now on, and counts for its policies.
    pub(crate) fn decide_by(&self, plan: Plan) {
        let plan = plan.showing_keys(self.shows_keys);
        self.metrics.register(&plan);
        self.overflows.lock().turn(&self.limiter.plan(), &plan, self.limiter.store());
        self.limiter.replace(plan);
    }

    pub(crate) const fn followers(&self) -> &Followers {
        &self.followers
    }

    pub(crate) const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) const fn turn(&self) -> &tokio::sync::Mutex<()> {
        &self.turn
    }

    pub(crate) const fn making(&self) -> &Mutex<Making> {
        &self.making
    }

    /// What the store held a moment ago: asking often does not ask the store often.
    pub(crate) async fn usage(&self) -> Usage {
        let now = self.metrics.now();
        let (at, known) = *self.usage.lock();
        if now.since(at) < USAGE_HOLDS && self.limiter.store().shared_secret().is_some() {
            return known;
        }
        let usage = self.limiter.store().usage().await.unwrap_or_default();
        *self.usage.lock() = (now, usage);
        usage
    }

    /// How often new keys have had to share counters, by policy: as it is now.
    pub(crate) fn overflows(&self) -> MutexGuard<'_, Overflows> {
        let mut overflows = self.overflows.lock();
        overflows.look(&self.limiter.plan(), self.limiter.store());
        overflows
    }

    /// The policies whose new keys have had to share counters.
    pub async fn overflowing(&self) -> Vec<String> {
        if self.usage().await.overflowed.unwrap_or(0) == 0 {
            return Vec::new();
        }
        let (plan, overflows) = (self.limiter.plan(), self.overflows());
        let names = plan.policies().iter().map(PlannedPolicy::name);
        names.filter(|name| overflows.of(name) > Some(0)).map(str::to_owned).collect()
    }

    /// Takes note of a reload that took effect, or of why it did not.
    pub(crate) fn reloaded(&self, outcome: Result<(), &Problems>) {
        match outcome {
            Ok(()) => {
                self.count_reload(true);
                *self.reloads.problem.lock() = None;
                // All files that it names were read.
                self.refreshed(&[]);
            }
            Err(problems) => {
                self.count_reload(false);
                let text = problems.to_string();
                let first = text.lines().next().unwrap_or_default();
                *self.reloads.problem.lock() = Some(first.to_owned());
            }
        }
    }

    /// Takes note of what is wrong with files that the plan names, if anything is.
    pub(crate) fn refreshed(&self, problems: &[String]) {
        *self.reloads.file_problem.lock() = problems.first().cloned();
    }

    /// Counts a change that took effect, or was refused.
    pub(crate) fn count_reload(&self, is_done: bool) {
        let count = if is_done { &self.reloads.done } else { &self.reloads.refused };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// How many reloads took effect, and how many were refused.
    pub fn reload_counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.reloads.done), count(&self.reloads.refused))
    }

    /// What is wrong with the configuration that would otherwise be in use, or with a file that the one
    /// in use names.
    pub fn reload_problem(&self) -> Option<String> {
        let problem = self.reloads.problem.lock().clone();
        problem.or_else(|| self.reloads.file_problem.lock().clone())
    }

    /// The counts of all workers.
    pub(crate) const fn redis_clients(&self) -> &RedisClients {
        &self.redis_clients
    }

    /// Of all listeners.
    pub(crate) const fn logins(&self) -> &FailedLogins {
        &self.logins
    }

    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

const DEMO: &str = "policies: [{ name: demo, key: [key], limits: [10/minute] }]";
const USAGE_HOLDS: Span = Span::from_secs(2);
