//! The limit of one function with `#[rate_limit]`.
//!
//! The macro writes a static of this type into the function, so that the limiter is made at the first call and
//! lives as long as the program.

use std::sync::{Arc, OnceLock};

use tidegate_core::{AlgorithmKind, Cost};
use tidegate_policy::{Key, OnStoreError};

use super::store::FunctionStore;
use super::{Denied, store};
use crate::{BuildError, Limiter};

/// A limit in a `static` beside its function, which finds the store of this process on the first call.
/// Used by the code that the attribute generates.
#[doc(hidden)]
#[derive(Debug)]
pub struct FunctionLimit {
    name: &'static str,
    quotas: &'static [&'static str],
    algorithm: Option<AlgorithmKind>,
    on_store_error: OnStoreError,
    limiter: OnceLock<Result<Limiter<Arc<FunctionStore>>, BuildError>>,
}

impl FunctionLimit {
    pub const fn new(
        name: &'static str,
        quotas: &'static [&'static str],
        algorithm: Option<AlgorithmKind>,
        on_store_error: OnStoreError,
    ) -> Self {
        Self { name, quotas, algorithm, on_store_error, limiter: OnceLock::new() }
    }

    pub async fn enter<K: Key + Sync>(&self, key: &Option<K>, cost: Cost) -> Result<(), Denied> {
        super::enter(self.limiter()?, self.name, key, cost).await
    }

    pub fn enter_now<K: Key + Sync>(&self, key: &Option<K>, cost: Cost) -> Result<(), Denied> {
        super::enter_now(self.limiter()?, self.name, key, cost)
    }

    pub async fn queue<K: Key + Sync>(&self, key: &Option<K>, cost: Cost) -> Result<(), Denied> {
        super::queue(self.limiter()?, self.name, key, cost).await
    }

    pub fn queue_now<K: Key + Sync>(&self, key: &Option<K>, cost: Cost) -> Result<(), Denied> {
        super::queue_now(self.limiter()?, self.name, key, cost)
    }

    pub async fn leave<K: Key + Sync>(&self, key: &Option<K>, cost: Cost) {
        if let Ok(limiter) = self.limiter() {
            super::leave(limiter, key, cost).await;
        }
    }

    pub fn leave_now<K: Key + Sync>(&self, key: &Option<K>, cost: Cost) {
        if let Ok(limiter) = self.limiter() {
            super::leave_now(limiter, key, cost);
        }
    }

    fn limiter(&self) -> Result<&Limiter<Arc<FunctionStore>>, Denied> {
        let limiter = self.limiter.get_or_init(|| self.build());
        limiter.as_ref().map_err(|error| Denied::no_limiter(self.name, error.clone()))
    }

    fn build(&self) -> Result<Limiter<Arc<FunctionStore>>, BuildError> {
        let mut builder = Limiter::builder().name(self.name).limits(self.quotas.iter().copied());
        if let Some(algorithm) = self.algorithm {
            builder = builder.algorithm(algorithm);
        }
        builder.on_store_error(self.on_store_error).store(store::of_this_process()).build()
    }
}
