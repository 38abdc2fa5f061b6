//! The limit of one function with `#[rate_limit]`.
//!
//! The macro writes a static of this type into the function, so that the limiter is made at the first call and
//! lives as long as the program.

use std::sync::{Arc, OnceLock};

use tidegate_core::AlgorithmKind;
use tidegate_policy::{Key, OnStoreError};

use super::store::AnyStore;
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
    limiter: OnceLock<Result<Limiter<Arc<AnyStore>>, BuildError>>,
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

    pub async fn enter<K: Key + Sync>(&self, key: &Option<K>) -> Result<(), Denied> {
        super::enter(self.limiter()?, self.name, key).await
    }

    pub fn enter_now<K: Key + Sync>(&self, key: &Option<K>) -> Result<(), Denied> {
        super::enter_now(self.limiter()?, self.name, key)
    }

    pub async fn queue<K: Key + Sync>(&self, key: &Option<K>) -> Result<(), Denied> {
        super::queue(self.limiter()?, self.name, key).await
    }

    pub fn queue_now<K: Key + Sync>(&self, key: &Option<K>) -> Result<(), Denied> {
        super::queue_now(self.limiter()?, self.name, key)
    }

    pub async fn leave<K: Key + Sync>(&self, key: &Option<K>) {
        if let Ok(limiter) = self.limiter() {
            super::leave(limiter, key).await;
        }
    }

    pub fn leave_now<K: Key + Sync>(&self, key: &Option<K>) {
        if let Ok(limiter) = self.limiter() {
            super::leave_now(limiter, key);
        }
    }

    fn limiter(&self) -> Result<&Limiter<Arc<AnyStore>>, Denied> {
        let limiter = self.limiter.get_or_init(|| self.build());
        limiter.as_ref().map_err(|error| Denied::no_limiter(self.name, error.clone()))
    }

    fn build(&self) -> Result<Limiter<Arc<AnyStore>>, BuildError> {
        let mut builder = Limiter::builder().name(self.name).limits(self.quotas.iter().copied());
        if let Some(algorithm) = self.algorithm {
            builder = builder.algorithm(algorithm);
        }
        builder.on_store_error(self.on_store_error).store(store::of_this_process()).build()
    }
}
