//! The gateway that all workers share.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tidegate::config::gateway;
use tidegate::{Lines, Plan};
use tokio::task::AbortHandle;

use crate::runtime::{GatewayError, Runtime};
use crate::upstream::health;

/// Where requests go, by the plan of now. Follows a plan that is replaced: services that stay keep
/// their connections and what is known of them.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::Plan;
/// use tidegate::config::{Source, gateway};
/// use tidegate_gateway::Gateway;
///
/// let text = "policies: [{ name: demo, key: [ip], limits: [100/minute] }]";
/// let plan = Plan::compile(&Source::new("limits.yaml", text)?)?;
/// // What the file does not say, a command line may.
/// let upstream = gateway::Gateway::to("http://127.0.0.1:3000")?;
/// let gateway = Gateway::new(Arc::new(plan), Some(upstream))?;
/// assert_eq!(gateway.listen(), ["127.0.0.1:8000"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Gateway {
    /// For plans that do not describe one.
    fallback: Option<gateway::Gateway>,
    current: ArcSwap<Runtime>,
    /// Held by whoever makes the next one; the plan that could not be followed, if one could not.
    renewal: Mutex<Option<Arc<Plan>>>,
    pub(crate) lines: Lines,
    checks: Mutex<Vec<AbortHandle>>,
}

impl Gateway {
    /// As the plan describes it, or else as `fallback` does.
    pub fn new(plan: Arc<Plan>, fallback: Option<gateway::Gateway>) -> Result<Self, GatewayError> {
        let Some(about) = plan.gateway().or(fallback.as_ref()).cloned() else {
            return Err(GatewayError::new("no gateway: expected \"gateway\" in the file"));
        };
        Ok(Self {
            current: ArcSwap::from_pointee(Runtime::new(plan, about, None)?),
            fallback,
            renewal: Mutex::new(None),
            lines: Lines::default(),
            checks: Mutex::new(Vec::new()),
        })
    }

    /// Where to listen. A change of it needs a restart.
    pub fn listen(&self) -> Vec<String> {
        self.current.load().gateway.listen.clone()
    }

    /// How many records of the access log were dropped because its file is slow.
    pub fn dropped_records(&self) -> u64 {
        self.current.load().log.as_ref().map_or(0, |log| log.dropped())
    }

    /// What requests go by under this plan.
    pub(crate) fn runtime(&self, plan: &Arc<Plan>) -> Arc<Runtime> {
        let current = self.current.load();
        if Arc::ptr_eq(&current.plan, plan) {
            return Arc::clone(&current);
        }
        drop(current);
        self.renew(plan)
    }

    /// The first request under a new plan makes the gateway anew; others go by the old one until it
    /// is there. A plan that cannot be followed, since a file of it is missing, is reported once.
    #[cold]
    fn renew(&self, plan: &Arc<Plan>) -> Arc<Runtime> {
        let Some(mut refused) = self.renewal.try_lock() else { return self.current.load_full() };
        let current = self.current.load_full();
        let is_refused = refused.as_ref().is_some_and(|it| Arc::ptr_eq(it, plan));
        if Arc::ptr_eq(&current.plan, plan) || is_refused {
            return current;
        }
        let renewed = match plan.gateway().or(self.fallback.as_ref()) {
            Some(about) => Runtime::new(Arc::clone(plan), about.clone(), Some(&current)),
            None => Err(GatewayError::new("the file has no gateway any more")),
        };
        match renewed {
            Ok(runtime) => {
                self.current.store(Arc::new(runtime));
                if !self.checks.lock().is_empty() {
                    self.check_health();
                }
                self.current.load_full()
            }
            Err(error) => {
                eprintln!("{error}\nthe gateway stays as it was");
                *refused = Some(Arc::clone(plan));
                current
            }
        }
    }

    /// Asks services whether they are well, on the runtime of the caller, until dropped.
    pub(crate) fn check_health(&self) {
        let mut checks = self.checks.lock();
        checks.drain(..).for_each(|check| check.abort());
        for cluster in &self.current.load().clusters {
            checks.push(tokio::spawn(health::watch(Arc::clone(cluster))).abort_handle());
        }
    }

    /// The same, unless somebody does already.
    pub(crate) fn begin_checks(&self) {
        if self.checks.lock().iter().all(AbortHandle::is_finished) {
            self.check_health();
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.checks.lock().iter().for_each(AbortHandle::abort);
    }
}

/// How often connections that nobody uses are looked for.
pub(crate) const SWEEP: Duration = Duration::from_secs(10);
