//! The state that all transports share: the limiter, its configuration, and its counters.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::HeaderMap;
use parking_lot::{Mutex, MutexGuard};
use tidegate::config::{FileProblems, PlannedPolicy, PolicySource};
use tidegate::{MemoryStore, Plan, PlanLimiter, Span, Store, StoreUsage, Timestamp};

use crate::net::seats::SeatPool;
use crate::service::amendments::PlanInputs;
use crate::service::app_extension::AppExtensions;
use crate::service::failed_logins::FailedLogins;
use crate::service::metrics::{self, DecisionMetrics, ListenerKind, RefusalReason};
use crate::service::policy_overflows::PolicyOverflows;
use crate::service::top::KeyMarks;
use crate::service::trace::{TraceParent, TraceSpan, Tracer};
use crate::transport::resp::RespClientCounters;
use crate::{BoundAddress, ClientRight, ClientRights, Transport};

/// The state of one server: its limiter, its counters, its reloads, and whether it is stopping.
#[derive(Debug)]
pub struct App<S = MemoryStore> {
    limiter: PlanLimiter<S>,
    metrics: DecisionMetrics,
    tracer: Option<Tracer>,
    rights: ClientRights,
    plan_inputs: Mutex<PlanInputs>,
    /// Held while shared settings are read and applied, so that snapshots apply in the order of reading.
    settings_lock: tokio::sync::Mutex<()>,
    usage: Mutex<(Timestamp, StoreUsage)>,
    overflows: Mutex<PolicyOverflows>,
    shows_keys: bool,
    draining: AtomicBool,
    reloads: ReloadRecord,
    extensions: AppExtensions,
    redis_clients: RespClientCounters,
    logins: FailedLogins,
    /// The seats of each listener, with the address it is bound to.
    seat_pools: Mutex<Vec<(String, Arc<SeatPool>)>>,
}

/// Counts and problems of configuration reloads.
#[derive(Debug, Default)]
struct ReloadRecord {
    done: AtomicU64,
    refused: AtomicU64,
    /// The problem of the newest configuration file, if it was refused.
    problem: Mutex<Option<String>>,
    /// The problem of a file that the configuration names.
    file_problem: Mutex<Option<String>>,
}

impl<S: Store> App<S> {
    /// Serves a fixed plan. Without its source text, the plan can neither be reloaded nor amended.
    pub fn new(plan: Plan, store: S) -> Self {
        Self::with(PlanLimiter::new(plan, store), None)
    }

    fn with(limiter: PlanLimiter<S>, source: Option<PolicySource>) -> Self {
        // A server reports its store's problems in its own log.
        let limiter = limiter.on_store_event(|_| {});
        Self {
            metrics: DecisionMetrics::new(
                &limiter.plan(),
                KeyMarks::under(limiter.store().profile().shared_secret),
            ),
            limiter,
            tracer: None,
            rights: ClientRights::NONE,
            plan_inputs: Mutex::new(PlanInputs::of(source)),
            settings_lock: tokio::sync::Mutex::default(),
            usage: Mutex::default(),
            overflows: Mutex::default(),
            shows_keys: false,
            draining: AtomicBool::new(false),
            reloads: ReloadRecord::default(),
            extensions: AppExtensions::default(),
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

    /// Serves a configuration, or returns all of its problems.
    pub fn load(source: &PolicySource, store: S) -> Result<Self, FileProblems> {
        Ok(Self::with(PlanLimiter::load(source, store)?, Some(source.clone())))
    }

    /// Sets how many instances share the limits, which applies while the store does not answer.
    #[must_use]
    pub fn expected_nodes(self, nodes: u32) -> Self {
        Self { limiter: self.limiter.expected_nodes(nodes), ..self }
    }

    /// Keeps the text of the most frequent keys, and shows it to operators. By default only
    /// fingerprints are kept.
    #[must_use]
    pub fn with_shown_keys(self) -> Self {
        let app = Self { shows_keys: true, ..self };
        // The plan is rebuilt from the same text, which was valid.
        let source = app.plan_inputs.lock().source.clone();
        if let Some(source) = source {
            let _ = app.reload(&source);
        }
        app
    }

    /// What clients can do besides checks. Defaults to nothing.
    #[must_use]
    pub fn with_rights(self, rights: ClientRights) -> Self {
        Self { rights, ..self }
    }

    /// Whether the clients of a listener have a right.
    pub(crate) const fn permits(&self, listener: Transport, right: ClientRight) -> bool {
        self.rights.permit(listener, right)
    }

    /// Traces requests.
    #[must_use]
    pub fn with_tracer(self, tracer: Tracer) -> Self {
        Self { tracer: Some(tracer), ..self }
    }

    /// The tracer, if requests are traced.
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

    /// Ends a request's span, if it has one.
    pub(crate) fn end_span(&self, span: Option<Box<TraceSpan>>) {
        if let (Some(span), Some(tracer)) = (span, &self.tracer) {
            tracer.end(span);
        }
    }

    /// The limiter that decides.
    pub const fn limiter(&self) -> &PlanLimiter<S> {
        &self.limiter
    }

    /// All metrics, in the Prometheus text format.
    pub async fn metrics_page(&self) -> String {
        metrics::page(self).await
    }

    /// Counts a request that got no decision.
    pub fn count_refusal(&self, listener: ListenerKind, reason: RefusalReason) {
        self.metrics.refused().count(listener, reason);
    }

    /// Counts a request that hyper could not read and has refused.
    pub fn count_unreadable(&self, listener: ListenerKind, error: &hyper::Error) {
        if let Some(reason) = RefusalReason::of_unreadable(error) {
            self.count_refusal(listener, reason);
        }
    }

    /// Adds a listener's connections to the metrics.
    pub(crate) fn add_seat_pool(&self, address: &BoundAddress, seats: &Arc<SeatPool>) {
        self.seat_pools.lock().push((address.to_string(), Arc::clone(seats)));
    }

    /// Whether this peer is a trusted proxy, which sends the requests of many clients.
    pub(crate) fn is_trusted_proxy(&self, peer: IpAddr) -> bool {
        let (plan, peer) = (self.limiter.plan(), peer.to_canonical());
        plan.settings().trusted_proxies().iter().any(|proxies| proxies.contains(peer.into()))
    }

    pub(crate) fn seat_pools(&self) -> Vec<(String, Arc<SeatPool>)> {
        self.seat_pools.lock().clone()
    }

    /// Replaces the plan, and starts to count for its policies.
    pub(crate) fn set_plan(&self, plan: Plan) {
        let plan = plan.showing_keys(self.shows_keys);
        self.metrics.register(&plan);
        self.overflows.lock().change_plan(&self.limiter.plan(), &plan, self.limiter.store());
        self.limiter.replace(plan);
    }

    pub(crate) const fn extensions(&self) -> &AppExtensions {
        &self.extensions
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

    /// The store's usage, cached for a moment so that frequent scrapes do not load the store.
    pub(crate) async fn usage(&self) -> StoreUsage {
        let now = self.metrics.now();
        let (at, known) = *self.usage.lock();
        if now.since(at) < USAGE_HOLDS && self.limiter.store().profile().is_remote() {
            return known;
        }
        let usage = self.limiter.store().usage().await.unwrap_or_default();
        *self.usage.lock() = (now, usage);
        usage
    }

    /// How often new keys have had to share counters, by policy, up to date.
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

    /// Records a reload that took effect, or the problems of one that was refused.
    pub(crate) fn record_reload(&self, outcome: Result<(), &FileProblems>) {
        match outcome {
            Ok(()) => {
                self.count_reload(true);
                *self.reloads.problem.lock() = None;
                // All files that the configuration names were read as well.
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

    /// Records the problems of files that the plan names; none clears the last one.
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

    /// The problem of the newest configuration, or else of a file that the configuration in use names.
    pub fn reload_problem(&self) -> Option<String> {
        let problem = self.reloads.problem.lock().clone();
        problem.or_else(|| self.reloads.file_problem.lock().clone())
    }

    /// The counters of Redis clients, across all workers.
    pub(crate) const fn redis_clients(&self) -> &RespClientCounters {
        &self.redis_clients
    }

    /// The failed logins of all listeners.
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
/// How long a remote store's usage is cached.
const USAGE_HOLDS: Span = Span::from_secs(2);
