//! What the transports share: the limiter, and how it stands with its configuration.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tidegate::config::{Problems, Source};
use tidegate::{AdHoc, Cost, Decision, MemoryStore, OnStoreError, Owed, Plan, PlanLimiter, Store};

use crate::transport::resp::RedisClients;

/// A limiter, whether the server is stopping, and what became of the last reload.
#[derive(Debug)]
pub struct App<S = MemoryStore> {
    limiter: PlanLimiter<S>,
    draining: AtomicBool,
    reloads: Reloads,
    redis_clients: RedisClients,
}

/// How reloads went.
#[derive(Debug, Default)]
struct Reloads {
    done: AtomicU64,
    refused: AtomicU64,
    /// What is wrong with the file that would be in use if it were right.
    problem: Mutex<Option<String>>,
}

impl<S: Store> App<S> {
    /// Serves a plan.
    pub fn new(plan: Plan, store: S) -> Self {
        Self::with(PlanLimiter::new(plan, store))
    }

    fn with(limiter: PlanLimiter<S>) -> Self {
        Self {
            limiter,
            draining: AtomicBool::new(false),
            reloads: Reloads::default(),
            redis_clients: RedisClients::new(),
        }
    }

    /// The policy of a server without a configuration: `demo`, 10 a minute for each `key`.
    pub fn demo(store: S) -> Result<Self, Problems> {
        let source = Source::new("demo", DEMO)?;
        Self::load(&source, store)
    }

    /// Serves what a user wrote, or says everything that is wrong with it.
    pub fn load(source: &Source, store: S) -> Result<Self, Problems> {
        Ok(Self::with(PlanLimiter::load(source, store)?))
    }

    /// How many instances share the limits, for when the store does not answer.
    #[must_use]
    pub fn expected_nodes(self, nodes: u32) -> Self {
        Self { limiter: self.limiter.expected_nodes(nodes), ..self }
    }

    /// Who decides.
    pub const fn limiter(&self) -> &PlanLimiter<S> {
        &self.limiter
    }

    /// Decides what is owed. Every transport asks here, so that all decisions are seen.
    pub async fn settle(&self, owed: &Owed<'_>) -> Decision {
        self.limiter.settle(owed).await
    }

    /// Decides by a limit that came with the request. Without the store it is this instance's share
    /// of it that counts.
    pub async fn settle_ad_hoc(&self, asked: &AdHoc, cost: Cost) -> Decision {
        self.limiter.settle_charges(&[asked.charge(cost)], OnStoreError::Local).await
    }

    /// Takes note of a reload that took effect, or of why it did not.
    pub(crate) fn reloaded(&self, outcome: Result<(), &Problems>) {
        match outcome {
            Ok(()) => {
                self.reloads.done.fetch_add(1, Ordering::Relaxed);
                *self.reloads.problem.lock() = None;
            }
            Err(problems) => {
                self.reloads.refused.fetch_add(1, Ordering::Relaxed);
                let text = problems.to_string();
                let first = text.lines().next().unwrap_or_default();
                *self.reloads.problem.lock() = Some(first.to_owned());
            }
        }
    }

    /// How many reloads took effect, and how many were refused.
    pub fn reload_counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.reloads.done), count(&self.reloads.refused))
    }

    /// What is wrong with the configuration that would be in use if it were right.
    pub fn reload_problem(&self) -> Option<String> {
        self.reloads.problem.lock().clone()
    }

    /// Those of all workers.
    pub(crate) const fn redis_clients(&self) -> &RedisClients {
        &self.redis_clients
    }

    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

const DEMO: &str = "policies: [{ name: demo, key: [key], limits: [10/minute] }]";
