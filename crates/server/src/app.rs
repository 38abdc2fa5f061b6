//! What the transports share: the limiter, and the state of its configuration.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use http::HeaderMap;
use parking_lot::{Mutex, MutexGuard};
use tidegate::config::{FileProblems, PlannedPolicy, PolicySource};
use tidegate::{MemoryStore, Plan, PlanLimiter, Span, Store, StoreUsage, Timestamp};

use crate::BoundAddress;
use crate::amendments::PlanInputs;
use crate::failed_logins::FailedLogins;
use crate::metrics::{self, DecisionMetrics, ListenerKind, MetricSource, RefusalReason};
use crate::plan_followers::PlanFollowers;
use crate::policy_overflows::PolicyOverflows;
use crate::seats::SeatPool;
use crate::top::KeyMarks;
use crate::trace::{TraceParent, TraceSpan, Tracer};
use crate::transport::resp::RespClientCounters;

/// A limiter, the counts about it, whether the server is stopping, and what became of the last
/// reload.
#[derive(Debug)]
pub struct App<S = MemoryStore> {
    limiter: PlanLimiter<S>,
    metrics: DecisionMetrics,
    /// Whose metrics are on the page as well.
    metric_source: OnceLock<Arc<dyn MetricSource>>,
    tracer: Option<Tracer>,
    plan_inputs: Mutex<PlanInputs>,
    /// Whose turn it is to look at the board: what was seen first is obeyed first.
    settings_lock: tokio::sync::Mutex<()>,
    usage: Mutex<(Timestamp, StoreUsage)>,
    overflows: Mutex<PolicyOverflows>,
    shows_keys: bool,
    draining: AtomicBool,
    reloads: ReloadRecord,
    followers: PlanFollowers,
    redis_clients: RespClientCounters,
    logins: FailedLogins,
    /// Of each listener, by where it listens.
    seat_pools: Mutex<Vec<(String, Arc<SeatPool>)>>,
}

/// How reloads went.
#[derive(Debug, Default)]
struct ReloadRecord {
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

    fn with(limiter: PlanLimiter<S>, source: Option<PolicySource>) -> Self {
        Self {
            metrics: DecisionMetrics::new(
                &limiter.plan(),
                KeyMarks::under(limiter.store().shared_secret()),
            ),
            metric_source: OnceLock::new(),
            limiter,
            tracer: None,
            plan_inputs: Mutex::new(PlanInputs::of(source)),
            settings_lock: tokio::sync::Mutex::default(),
            usage: Mutex::default(),
            overflows: Mutex::default(),
            shows_keys: false,
            draining: AtomicBool::new(false),
            reloads: ReloadRecord::default(),
            followers: PlanFollowers::default(),
            redis_clients: RespClientCounters::new(),
            logins: FailedLogins::new(),
            seat_pools: Mutex::default(),
        }
    }

    /// The policy of a server without a configuration: `demo`, 10 a minute for each `key`.
    pub fn demo(store: S) -> Result<Self, FileProblems> {
        let source = PolicySource::new("demo", DEMO)?;
        Self::load(&source, store)
    }

    /// Serves what a user wrote, or reports everything that is wrong with it.
    pub fn load(source: &PolicySource, store: S) -> Result<Self, FileProblems> {
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
    pub fn with_shown_keys(self) -> Self {
        let app = Self { shows_keys: true, ..self };
        // Rebuilt from the same text, which was valid.
        let source = app.plan_inputs.lock().source.clone();
        if let Some(source) = source {
            let _ = app.reload(&source);
        }
        app
    }

    /// Traces requests.
    #[must_use]
    pub fn with_tracer(self, tracer: Tracer) -> Self {
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
    pub fn add_metric_source(&self, guest: Arc<dyn MetricSource>) {
        let _ = self.metric_source.set(guest);
    }

    /// Counts a request that got no decision.
    pub fn count_refusal(&self, listener: ListenerKind, reason: RefusalReason) {
        self.metrics.refused().count(listener, reason);
    }

    pub(crate) fn metric_source(&self) -> Option<&Arc<dyn MetricSource>> {
        self.metric_source.get()
    }

    /// Shows how many connections a listener has.
    pub(crate) fn add_seat_pool(&self, place: &BoundAddress, room: &Arc<SeatPool>) {
        self.seat_pools.lock().push((place.to_string(), Arc::clone(room)));
    }

    /// Whether a connection from there is of a proxy, which speaks for many clients.
    pub(crate) fn is_trusted_proxy(&self, peer: IpAddr) -> bool {
        let (plan, peer) = (self.limiter.plan(), peer.to_canonical());
        plan.settings().trusted_proxies().iter().any(|it| it.contains(peer.into()))
    }

    pub(crate) fn seat_pools(&self) -> Vec<(String, Arc<SeatPool>)> {
        self.seat_pools.lock().clone()
    }

    /// Decides by another plan from now on, and counts for its policies.
    pub(crate) fn set_plan(&self, plan: Plan) {
        let plan = plan.showing_keys(self.shows_keys);
        self.metrics.register(&plan);
        self.overflows.lock().change_plan(&self.limiter.plan(), &plan, self.limiter.store());
        self.limiter.replace(plan);
    }

    pub(crate) const fn followers(&self) -> &PlanFollowers {
        &self.followers
    }

    pub(crate) const fn metrics(&self) -> &DecisionMetrics {
        &self.metrics
    }

    pub(crate) const fn settings_lock(&self) -> &tokio::sync::Mutex<()> {
        &self.settings_lock
    }

    pub(crate) const fn plan_inputs(&self) -> &Mutex<PlanInputs> {
        &self.plan_inputs
    }

    /// What the store held a moment ago: asking often does not ask the store often.
    pub(crate) async fn usage(&self) -> StoreUsage {
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
    pub(crate) fn overflows(&self) -> MutexGuard<'_, PolicyOverflows> {
        let mut overflows = self.overflows.lock();
        overflows.update(&self.limiter.plan(), self.limiter.store());
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
    pub(crate) fn record_reload(&self, outcome: Result<(), &FileProblems>) {
        match outcome {
            Ok(()) => {
                self.count_reload(true);
                *self.reloads.problem.lock() = None;
                // All files that it names were read.
                self.record_file_problems(&[]);
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
    pub(crate) fn record_file_problems(&self, problems: &[String]) {
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
    pub(crate) const fn redis_clients(&self) -> &RespClientCounters {
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
