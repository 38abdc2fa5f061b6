//! The gateway that all workers share: it follows the plan, and rebuilds its services when it changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tidegate::{Plan, WaitQueues};
use tidegate_server::log::{self, LogLevel};
use tidegate_server::{AppExtension, MetricFamily, NamedFiles};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::buffers::BufferBudget;
use crate::config::{GatewayPlan, GatewaySection};
use crate::metrics;
use crate::runtime::GatewayRuntime;
use crate::services::{GatewayError, GatewayServices};
use crate::upstream::health;

/// The routes and services of the current plan. When the plan is replaced, the services that stay keep
/// their connections and their state.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::Plan;
/// use tidegate::config::PolicySource;
/// use tidegate_gateway::Gateway;
/// use tidegate_gateway::config::GatewayPlan;
///
/// let text = "policies: [{ name: demo, key: [ip], limits: [100/minute] }]";
/// let plan = Plan::compile(&PolicySource::new("limits.yaml", text)?)?;
/// // The file describes no gateway, so the caller provides one.
/// let upstream = GatewayPlan::to("http://127.0.0.1:3000")?;
/// let gateway = Gateway::new(Arc::new(plan), Some(upstream))?;
/// assert_eq!(gateway.listen(), ["127.0.0.1:8000"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Gateway {
    /// For plans that do not describe a gateway.
    fallback: Option<GatewayPlan>,
    current: ArcSwap<GatewayRuntime>,
    /// Prepared for the next plan.
    ready: Mutex<Option<Arc<GatewayServices>>>,
    /// The files of a plan that was refused because of one of them: a change can make it acceptable.
    missed: Mutex<NamedFiles>,
    /// Locked while the next runtime is built. Holds the last plan that was refused, so that it is
    /// reported once.
    renewal: Mutex<Option<Arc<Plan>>>,
    pub(crate) queues: WaitQueues,
    /// Memory for buffered bodies and queued requests.
    pub(crate) budget: Arc<BufferBudget>,
    checks: Mutex<Vec<AbortHandle>>,
}

impl Gateway {
    /// Builds the gateway that the plan describes, or else the one in `fallback`.
    pub fn new(plan: Arc<Plan>, fallback: Option<GatewayPlan>) -> Result<Self, GatewayError> {
        let Some(config) = plan.section::<GatewaySection>().or(fallback.as_ref()).cloned() else {
            return Err(GatewayError::new("no gateway: expected \"gateway\" in the file"));
        };
        let services = Arc::new(GatewayServices::new(config, None, &mut NamedFiles::default())?);
        Ok(Self {
            current: ArcSwap::from_pointee(GatewayRuntime::new(plan, services)),
            fallback,
            ready: Mutex::new(None),
            missed: Mutex::default(),
            renewal: Mutex::new(None),
            queues: WaitQueues::default(),
            budget: BufferBudget::new(DEFAULT_BUDGET),
            checks: Mutex::new(Vec::new()),
        })
    }

    /// Bounds the memory for buffered data: responses over HTTP/2 that clients do not read, request
    /// bodies over HTTP/2 that services do not read, and requests in queues. 256 MiB by default.
    #[must_use]
    pub fn with_memory(mut self, bytes: usize) -> Self {
        self.budget = BufferBudget::new(bytes);
        self
    }

    /// The addresses to listen on. Changing them needs a restart.
    pub fn listen(&self) -> Vec<String> {
        self.current.load().services.gateway.listen.clone()
    }

    /// How many lines of the access log were lost because its file was too slow or its disk full.
    pub fn lost_log_lines(&self) -> u64 {
        self.current.load().services.lost_lines.load(Ordering::Relaxed)
    }

    /// How many token signatures were verified, valid or not.
    pub fn verified_signatures(&self) -> u64 {
        self.current.load().services.signatures.load(Ordering::Relaxed)
    }

    /// The runtime for requests under this plan.
    pub(crate) fn runtime(&self, plan: &Arc<Plan>) -> Arc<GatewayRuntime> {
        let current = self.current.load();
        if Arc::ptr_eq(&current.plan, plan) {
            return Arc::clone(&current);
        }
        drop(current);
        self.renew(plan)
    }

    /// The first request under a new plan builds the runtime; others use the old one meanwhile. A plan
    /// that cannot be followed is reported once.
    #[cold]
    fn renew(&self, plan: &Arc<Plan>) -> Arc<GatewayRuntime> {
        let Some(mut refused) = self.renewal.try_lock() else { return self.current.load_full() };
        let current = self.current.load_full();
        let is_refused = refused.as_ref().is_some_and(|it| Arc::ptr_eq(it, plan));
        if Arc::ptr_eq(&current.plan, plan) || is_refused {
            return current;
        }
        match self.services(plan, &current.services) {
            Ok(services) => {
                let renewed = Arc::new(GatewayRuntime::new(Arc::clone(plan), services));
                self.current.store(Arc::clone(&renewed));
                if !self.checks.lock().is_empty() {
                    self.restart_health_checks();
                }
                renewed
            }
            Err(error) => {
                let message = format!("{error}\nthe gateway keeps its previous configuration");
                log::emit(LogLevel::Warn, "gateway_refused", &message, &[]);
                *refused = Some(Arc::clone(plan));
                current
            }
        }
    }

    /// The services prepared for this plan, or the current ones if the plan does not change them. Files
    /// are read here only for a plan that was not announced by [`prepare`](AppExtension::prepare).
    fn services(
        &self,
        plan: &Plan,
        current: &Arc<GatewayServices>,
    ) -> Result<Arc<GatewayServices>, GatewayError> {
        let config = self.config_for(plan)?;
        if let Some(ready) = self.ready.lock().take_if(|ready| ready.gateway == *config) {
            return Ok(ready);
        }
        if current.gateway == *config {
            return Ok(Arc::clone(current));
        }
        let mut files = NamedFiles::default();
        Ok(Arc::new(GatewayServices::new(config.clone(), Some(current), &mut files)?))
    }

    fn config_for<'a>(&'a self, plan: &'a Plan) -> Result<&'a GatewayPlan, GatewayError> {
        let config = plan.section::<GatewaySection>().or(self.fallback.as_ref());
        config.ok_or_else(|| GatewayError::new("the file has no gateway: expected one, as before"))
    }

    /// Starts the health checks of the current services on the caller's runtime, and stops the old ones.
    pub(crate) fn restart_health_checks(&self) {
        let mut checks = self.checks.lock();
        checks.drain(..).for_each(|check| check.abort());
        for cluster in &self.current.load().services.clusters {
            checks.push(tokio::spawn(health::check_forever(Arc::clone(cluster))).abort_handle());
        }
    }

    /// Starts the health checks unless some are running: one worker runs them for all.
    pub(crate) fn ensure_health_checks(&self) {
        if self.checks.lock().iter().all(AbortHandle::is_finished) {
            self.restart_health_checks();
        }
    }
}

/// A plan takes effect only together with the files that it names. Otherwise its policies would apply to
/// other listeners but not here, or here without the tokens that identify callers.
impl AppExtension for Gateway {
    fn prepare(&self, plan: &Plan) -> Result<(), String> {
        let before = Arc::clone(&self.current.load().services);
        let mut files = NamedFiles::default();
        let services = self
            .config_for(plan)
            .and_then(|config| GatewayServices::new(config.clone(), Some(&before), &mut files));
        *self.missed.lock() = if services.is_ok() { NamedFiles::default() } else { files };
        *self.ready.lock() = Some(Arc::new(services.map_err(|error| error.to_string())?));
        Ok(())
    }

    fn refresh(&self) -> Vec<String> {
        // The prepared services may have read the same files, so they are refreshed too.
        let waiting = self.ready.lock().clone();
        let renewed = waiting.as_ref().and_then(|it| it.refreshed().0).map(Arc::new);
        if let (Some(waiting), Some(renewed)) = (waiting, renewed)
            && let Some(ready) = self.ready.lock().as_mut().filter(|it| Arc::ptr_eq(it, &waiting))
        {
            *ready = renewed;
        }
        loop {
            // Read the files before taking the lock: a file system can hang.
            let current = self.current.load_full();
            let (services, problems) = current.services.refreshed();
            let Some(services) = services else { return problems };
            let _renewal = self.renewal.lock();
            if !Arc::ptr_eq(&self.current.load(), &current) {
                continue;
            }
            let plan = Arc::clone(&current.plan);
            self.current.store(Arc::new(GatewayRuntime::new(plan, Arc::new(services))));
            // Health checks run only while a worker serves.
            if !self.checks.lock().is_empty() && Handle::try_current().is_ok() {
                self.restart_health_checks();
            }
            return problems;
        }
    }

    fn files(&self) -> NamedFiles {
        let mut files = self.current.load().services.files.clone();
        self.ready.lock().iter().for_each(|it| files.extend(&it.files));
        files.extend(&self.missed.lock());
        files
    }

    fn metric_families(&self, plan: &Arc<Plan>) -> Vec<MetricFamily> {
        metrics::families(self, plan)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.checks.lock().iter().for_each(AbortHandle::abort);
    }
}

const DEFAULT_BUDGET: usize = 256 << 20;
/// How often idle connections to services are closed.
pub(crate) const POOL_SWEEP_INTERVAL: Duration = Duration::from_secs(10);
