//! What a store looks like in a log: one line, without a password.

use std::fmt;

use crate::RedisStore;

/// Where Redis is, and whether it is asked at present.
///
/// ```
/// use tidegate::{RedisConfig, RedisStore};
///
/// let config: RedisConfig = "redis://:hunter2@cache.internal".parse()?;
/// let shown = format!("{:?}", RedisStore::builder(config).build());
/// assert!(shown.starts_with("RedisStore { redis: redis://:***@cache.internal:6379"), "{shown}");
/// # Ok::<(), tidegate::RedisUrlError>(())
/// ```
impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("redis", &format_args!("{}", self.config()))
            .field("is_available", &self.is_available())
            .finish_non_exhaustive()
    }
}
