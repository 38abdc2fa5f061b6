//! Addresses of stores, and what is wrong with them.

use std::fmt;

/// An address that leads to no store.
///
/// ```
/// use tidegate::AnyStore;
///
/// let error = AnyStore::open("postgres://db", "").unwrap_err();
/// assert!(error.to_string().contains("expected memory"), "{error}");
/// ```
///
/// `Debug` is the same text, for programs whose `main` returns it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrlError {
    message: String,
}

impl StoreUrlError {
    /// `url` must not contain a password.
    #[cfg(feature = "redis")]
    pub(super) fn new(url: &str, problem: impl fmt::Display) -> Self {
        Self { message: format!("{url}: {problem}") }
    }
}

impl fmt::Display for StoreUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for StoreUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for StoreUrlError {}

#[cfg(feature = "redis")]
pub(super) fn redis_config(url: &str) -> Result<tidegate_store_redis::RedisConfig, StoreUrlError> {
    if !url.starts_with("redis") {
        return Err(unknown(url));
    }
    url.parse().map_err(|error: tidegate_store_redis::RedisUrlError| StoreUrlError {
        message: error.to_string(),
    })
}

/// The scheme alone is shown: what follows may contain a password.
pub(super) fn unknown(url: &str) -> StoreUrlError {
    let scheme = url.split(':').next().unwrap_or_default();
    let scheme = tidegate_core::text::brief(scheme, 40);
    let expected = match cfg!(feature = "redis") {
        true => "expected memory, or an address such as redis://host",
        false => "expected memory, or with the feature `redis` an address such as redis://host",
    };
    StoreUrlError { message: format!("{scheme:?} is not a store: {expected}") }
}
