//! The configuration of a polite layer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;

use crate::replay::is_idempotent;
use crate::scope::host_and_port;
use crate::{AdaptiveThrottle, ClientObserver, RetryBackoff, RetryBudget};

type ScopeFunction = Arc<dyn Fn(&Parts) -> String + Send + Sync>;
type RepeatFunction = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

/// The limits, functions and observer that were set on a layer.
///
/// The defaults are those of [`PoliteLayer::new`](crate::PoliteLayer::new). All services of a layer share
/// one copy, behind the state of the servers they know.
#[derive(Clone)]
pub(crate) struct ClientRules {
    pub(crate) max_retries: u32,
    pub(crate) max_wait: Duration,
    pub(crate) max_block: Duration,
    pub(crate) backoff: RetryBackoff,
    pub(crate) budget: Arc<RetryBudget>,
    pub(crate) throttle: Option<AdaptiveThrottle>,
    pub(crate) paces: bool,
    pub(crate) scope: ScopeFunction,
    pub(crate) repeat_if: RepeatFunction,
    pub(crate) observer: Option<Arc<dyn ClientObserver>>,
    pub(crate) seed: Option<u64>,
}

impl Default for ClientRules {
    fn default() -> Self {
        Self {
            max_retries: 5,
            max_wait: Duration::from_secs(90),
            max_block: Duration::from_secs(86_400),
            backoff: RetryBackoff::default(),
            budget: Arc::default(),
            throttle: None,
            paces: true,
            scope: Arc::new(host_and_port),
            repeat_if: Arc::new(is_idempotent),
            observer: None,
            seed: None,
        }
    }
}

impl fmt::Debug for ClientRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRules")
            .field("max_retries", &self.max_retries)
            .field("max_wait", &self.max_wait)
            .field("max_block", &self.max_block)
            .field("backoff", &self.backoff)
            .field("throttle", &self.throttle)
            .field("paces", &self.paces)
            .finish_non_exhaustive()
    }
}
