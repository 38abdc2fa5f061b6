//! The gateway that all workers share.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tidegate::config::gateway;
use tidegate::{Plan, WaitQueues};
use tidegate_server::log::{self, LogLevel};
use tidegate_server::{NamedFiles, PlanFollower};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::buffers::BufferBudget;
use crate::runtime::GatewayRuntime;
use crate::services::{GatewayError, GatewayServices};
use crate::upstream::health;

/// Where requests go, by the plan of now. Follows a plan that is replaced: services that stay keep
/// their connections and what is known of them.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::Plan;
/// use tidegate::config::{PolicySource, gateway};
/// use tidegate_gateway::Gateway;
///
/// let text = "policies: [{ name: demo, key: [ip], limits: [100/minute] }]";
/// let plan = Plan::compile(&PolicySource::new("limits.yaml", text)?)?;
/// // What the file does not say, a command line may.
/// let upstream = gateway::Gateway::to("http://127.0.0.1:3000")?;
/// let gateway = Gateway::new(Arc::new(plan), Some(upstream))?;
/// assert_eq!(gateway.listen(), ["127.0.0.1:8000"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Gateway {
    /// For plans that do not describe one.
    fallback: Option<gateway::GatewayPlan>,
    current: ArcSwap<GatewayRuntime>,
    /// For the plan that comes next.
    ready: Mutex<Option<Arc<GatewayServices>>>,
    /// The files of a plan that could not be followed because of one of them.
    missed: Mutex<NamedFiles>,
    /// Held by whoever makes the next one; the plan that could not be followed, if one could not.
    renewal: Mutex<Option<Arc<Plan>>>,
    pub(crate) lines: WaitQueues,
    /// Memory for what waits.
    pub(crate) budget: Arc<BufferBudget>,
    checks: Mutex<Vec<AbortHandle>>,
}

impl Gateway {
    /// As the plan describes it, or else as `fallback` does.
    pub fn new(
        plan: Arc<Plan>,
        fallback: Option<gateway::GatewayPlan>,
    ) -> Result<Self, GatewayError> {
        let Some(about) = plan.gateway().or(fallback.as_ref()).cloned() else {
            return Err(GatewayError::new("no gateway: expected \"gateway\" in the file"));
        };
        let services = Arc::new(GatewayServices::new(about, None, &mut NamedFiles::default())?);
        Ok(Self {
            current: ArcSwap::from_pointee(GatewayRuntime::new(plan, services)),
            fallback,
            ready: Mutex::new(None),
            missed: Mutex::default(),
            renewal: Mutex::new(None),
            lines: WaitQueues::default(),
            budget: BufferBudget::new(DEFAULT_BUDGET),
            checks: Mutex::new(Vec::new()),
        })
    }

    /// With this many bytes of memory for what waits: answers over HTTP/2 that clients do not take,
    /// bodies over HTTP/2 that services do not take, and requests in line. By default 256 MiB.
    #[must_use]
    pub fn with_memory(mut self, bytes: usize) -> Self {
        self.budget = BufferBudget::new(bytes);
        self
    }

    /// Where to listen. A change of it needs a restart.
    pub fn listen(&self) -> Vec<String> {
        self.current.load().services.gateway.listen.clone()
    }

    /// How many lines of the access log were lost: its file is slow, or full.
    pub fn lost_log_lines(&self) -> u64 {
        self.current.load().services.lost_lines.load(Ordering::Relaxed)
    }

    /// How many signatures of tokens were verified, whatever came of it.
    pub fn verified_signatures(&self) -> u64 {
        self.current.load().services.signatures.load(Ordering::Relaxed)
    }

    /// What requests go by under this plan.
    pub(crate) fn runtime(&self, plan: &Arc<Plan>) -> Arc<GatewayRuntime> {
        let current = self.current.load();
        if Arc::ptr_eq(&current.plan, plan) {
            return Arc::clone(&current);
        }
        drop(current);
        self.renew(plan)
    }

    /// The first request under a new plan makes the gateway anew; others go by the old one until it
    /// is there. A plan that cannot be followed is reported once.
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
                let message = format!("{error}\nthe gateway stays as it was, its limits too");
                log::emit(LogLevel::Warn, "gateway_refused", &message, &[]);
                *refused = Some(Arc::clone(plan));
                current
            }
        }
    }

    /// Those that are ready for this plan, or those of now if it changes nothing about them. Only for a
    /// plan that came past [`prepare`](PlanFollower::prepare) files are read here.
    fn services(
        &self,
        plan: &Plan,
        current: &Arc<GatewayServices>,
    ) -> Result<Arc<GatewayServices>, GatewayError> {
        let about = self.config_for(plan)?;
        if let Some(ready) = self.ready.lock().take_if(|ready| ready.gateway == *about) {
            return Ok(ready);
        }
        if current.gateway == *about {
            return Ok(Arc::clone(current));
        }
        let mut files = NamedFiles::default();
        Ok(Arc::new(GatewayServices::new(about.clone(), Some(current), &mut files)?))
    }

    fn config_for<'a>(&'a self, plan: &'a Plan) -> Result<&'a gateway::GatewayPlan, GatewayError> {
        let about = plan.gateway().or(self.fallback.as_ref());
        about.ok_or_else(|| GatewayError::new("the file has no gateway any more"))
    }

    /// Asks services whether they are well, on the runtime of the caller, until dropped.
    pub(crate) fn restart_health_checks(&self) {
        let mut checks = self.checks.lock();
        checks.drain(..).for_each(|check| check.abort());
        for cluster in &self.current.load().services.clusters {
            checks.push(tokio::spawn(health::check_forever(Arc::clone(cluster))).abort_handle());
        }
    }

    /// The same, unless somebody does already.
    pub(crate) fn ensure_health_checks(&self) {
        if self.checks.lock().iter().all(AbortHandle::is_finished) {
            self.restart_health_checks();
        }
    }
}

/// A plan takes effect only with all that it names. Otherwise its policies would be in effect at other
/// doors and not here, or here without the tokens that they tell callers apart by.
impl PlanFollower for Gateway {
    fn prepare(&self, plan: &Plan) -> Result<(), String> {
        let before = Arc::clone(&self.current.load().services);
        let mut files = NamedFiles::default();
        let services = self
            .config_for(plan)
            .and_then(|about| GatewayServices::new(about.clone(), Some(&before), &mut files));
        *self.missed.lock() = if services.is_ok() { NamedFiles::default() } else { files };
        *self.ready.lock() = Some(Arc::new(services.map_err(|error| error.to_string())?));
        Ok(())
    }

    fn refresh(&self) -> Vec<String> {
        // What waits for its plan was made of the same files, or of those that come next.
        let waiting = self.ready.lock().clone();
        let renewed = waiting.as_ref().and_then(|it| it.refreshed().0).map(Arc::new);
        if let (Some(waiting), Some(renewed)) = (waiting, renewed)
            && let Some(ready) = self.ready.lock().as_mut().filter(|it| Arc::ptr_eq(it, &waiting))
        {
            *ready = renewed;
        }
        loop {
            // Read before anybody waits: a file system may hang.
            let current = self.current.load_full();
            let (services, problems) = current.services.refreshed();
            let Some(services) = services else { return problems };
            let _renewal = self.renewal.lock();
            if !Arc::ptr_eq(&self.current.load(), &current) {
                continue;
            }
            let plan = Arc::clone(&current.plan);
            self.current.store(Arc::new(GatewayRuntime::new(plan, Arc::new(services))));
            // Where nobody serves, nobody checks.
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
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.checks.lock().iter().for_each(AbortHandle::abort);
    }
}

const DEFAULT_BUDGET: usize = 256 << 20;
/// How often connections that nobody uses are looked for.
pub(crate) const POOL_SWEEP_INTERVAL: Duration = Duration::from_secs(10);
