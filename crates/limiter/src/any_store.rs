//! A store whose type is chosen when the program runs.

mod erased;
mod url;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Charge, Rule, Span, Verdict};
use tidegate_store::{
    MemoryStore, Promise, SettleResult, Store, StoreError, StoreHealth, StoreProfile, StoreUsage,
    Verdicts,
};

use self::erased::ErasedStore;
pub use self::url::StoreUrlError;

/// A store whose type is chosen when the program runs: in memory for development, in Redis elsewhere.
///
/// It is a [`Store`] like any other, and its clones are the same store. Decisions are the same as without it;
/// with a store in memory they still need no allocation.
///
/// ```
/// use tidegate::{AnyStore, Limiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // In production: redis://cache.internal
/// let url = std::env::var("STORE").unwrap_or("memory".to_owned());
/// let store = AnyStore::open(&url, "the secret of this deployment")?;
///
/// let logins = Limiter::builder().name("logins").limit("5/minute").store(store.clone()).build()?;
/// let calls = Limiter::builder().name("calls").limit("100/minute").store(store).build()?;
/// assert!(logins.check("alice").await.is_allowed());
/// assert!(calls.check("alice").await.is_allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnyStore {
    store: Arc<dyn ErasedStore>,
    /// What it is, for people.
    description: Arc<str>,
}

impl AnyStore {
    /// A store of any type, as this type.
    ///
    /// ```
    /// use tidegate::{AnyStore, MemoryStore};
    ///
    /// let store = AnyStore::new(MemoryStore::builder().max_keys(10_000).build());
    /// # let _ = store;
    /// ```
    pub fn new<S: Store + 'static>(store: S) -> Self {
        let description = if store.profile().is_remote() { "remote" } else { "local" };
        Self::described(store, description)
    }

    fn described<S: Store + 'static>(store: S, description: &str) -> Self {
        Self { store: Arc::new(store), description: description.into() }
    }

    /// The store at an address: `memory`, or with the feature `redis` one that
    /// `RedisConfig` reads, such as `redis://host` or `rediss+cluster://host`.
    ///
    /// All processes with the same `secret` share their counters in Redis; a store in memory does not need it.
    /// Nothing connects yet: a Redis that cannot be reached is noticed by the first decision, or by
    /// [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// [`StoreUrlError`] if this is not such an address. It says what was expected, and shows no password.
    pub fn open(url: &str, secret: &str) -> Result<Self, StoreUrlError> {
        if url == MEMORY {
            return Ok(Self::described(MemoryStore::new(), MEMORY));
        }
        Self::open_redis(url, secret)
    }

    #[cfg(feature = "redis")]
    fn open_redis(url: &str, secret: &str) -> Result<Self, StoreUrlError> {
        let config = url::redis_config(url)?;
        let description = config.to_string();
        let store = tidegate_store_redis::RedisStore::builder(config).secret(secret).build();
        Ok(Self::described(store, &description))
    }

    #[cfg(not(feature = "redis"))]
    fn open_redis(url: &str, _: &str) -> Result<Self, StoreUrlError> {
        Err(url::unknown(url))
    }

    /// [`open`](Self::open), and connects: a program that should not start without its store learns at once
    /// that it is not there.
    ///
    /// # Errors
    ///
    /// [`StoreUrlError`] if this is not the address of a store, or if the store does not answer.
    ///
    /// ```
    /// use tidegate::AnyStore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(AnyStore::connect("memory", "").await.is_ok());
    /// let error = AnyStore::connect("redis://127.0.0.1:1", "").await.unwrap_err();
    /// assert!(error.to_string().starts_with("redis://127.0.0.1:1"), "{error}");
    /// # }
    /// ```
    pub async fn connect(url: &str, secret: &str) -> Result<Self, StoreUrlError> {
        #[cfg(feature = "redis")]
        if url != MEMORY {
            let config = url::redis_config(url)?;
            let description = config.to_string();
            let store = tidegate_store_redis::RedisStore::builder(config).secret(secret);
            let connected = store.connect().await;
            let store = connected.map_err(|error| StoreUrlError::new(&description, error))?;
            return Ok(Self::described(store, &description));
        }
        Self::open(url, secret)
    }
}

/// What it is, without a password: `AnyStore(redis://cache.internal:6379/0)`.
impl fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyStore({})", self.description)
    }
}

impl Store for AnyStore {
    fn profile(&self) -> StoreProfile {
        self.store.profile()
    }

    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        deadline: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        self.store.settle(charges, deadline, out)
    }

    fn settle_each<'c>(
        &self,
        charges: impl IntoIterator<Item = Charge<'c>>,
        mut report: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        self.store.settle_each(&mut charges.into_iter(), &mut report)
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.store.refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.store.reset(charge).await
    }

    fn set_deadline(&self, longest: Span) {
        self.store.set_deadline(longest);
    }

    fn health(&self) -> StoreHealth {
        self.store.health()
    }

    fn usage(&self) -> impl Future<Output = Result<StoreUsage, StoreError>> + Send {
        self.store.usage()
    }

    fn overflowed_of(&self, rule: &Rule) -> Option<u64> {
        self.store.overflowed_of(rule)
    }
}

/// The address of a store in this process.
const MEMORY: &str = "memory";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecisionSource, Limiter};

    #[tokio::test]
    async fn an_opened_store_decides_like_the_store_itself() {
        let store = AnyStore::open("memory", "").unwrap();
        let limiter = Limiter::builder().limit("2/hour").store(store.clone()).build().unwrap();
        assert!(limiter.try_check_n("a", 1).unwrap().is_allowed());
        let decision = limiter.check("a").await;
        assert_eq!((decision.remaining(), decision.source()), (Some(0), DecisionSource::Store));
        limiter.refund("a", 1).await.unwrap();
        assert_eq!(limiter.peek("a").await.remaining(), Some(1));
        limiter.reset("a").await.unwrap();
        assert_eq!(limiter.peek("a").await.remaining(), Some(2));
        assert_eq!(format!("{store:?}"), "AnyStore(memory)");
    }

    #[test]
    fn a_store_of_any_type_does_all_that_the_store_does() {
        tidegate_conformance::check_forwarding(AnyStore::new);
    }

    #[test]
    fn what_is_not_the_address_of_a_store_is_refused() {
        for url in ["", "Memory", "postgres://x", "redis://h:port"] {
            let error = AnyStore::open(url, "").unwrap_err();
            assert!(error.to_string().contains("expected"), "{error}");
        }
    }

    #[test]
    #[cfg(feature = "redis")]
    fn an_address_is_shown_without_its_password() {
        let store = AnyStore::open("redis://:hunter2@cache.internal", "x").unwrap();
        assert!(Store::profile(&store).is_remote());
        assert_eq!(format!("{store:?}"), "AnyStore(redis://:***@cache.internal:6379/0)");
    }
}
