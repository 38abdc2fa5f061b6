//! What the transports share: the limiter and how it is asked.

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate::{BuildError, Limiter, MemoryStore, Policy, Store};

/// A policy, the attribute that tells its callers apart, and whether the server is stopping.
#[derive(Debug)]
pub struct App<S = MemoryStore> {
    limiter: Limiter<S>,
    key_attribute: String,
    draining: AtomicBool,
}

impl<S: Store> App<S> {
    /// Serves a limiter whose callers are told apart by one attribute.
    pub fn new(limiter: Limiter<S>, key_attribute: impl Into<String>) -> Self {
        let key_attribute = key_attribute.into();
        Self { limiter, key_attribute, draining: AtomicBool::new(false) }
    }

    /// The policy of a server without a configuration: `demo`, 10 a minute for each `key`.
    pub fn demo(store: S) -> Result<Self, BuildError> {
        let limiter = Limiter::builder().name("demo").limit("10/minute").store(store).build()?;
        Ok(Self::new(limiter, "key"))
    }

    /// Who decides.
    pub const fn limiter(&self) -> &Limiter<S> {
        &self.limiter
    }

    /// What is decided by.
    pub const fn policy(&self) -> &Policy {
        self.limiter.policy()
    }

    /// The attribute that tells callers apart.
    pub fn key_attribute(&self) -> &str {
        &self.key_attribute
    }

    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
