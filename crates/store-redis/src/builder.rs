//! Options for a store in Redis.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use siphasher::sip128::SipHasher24;

use crate::link::LinkDestination;
use crate::{KeyFormat, KeyFormatError, RedisConfig, RedisStore};

/// Builds a [`RedisStore`].
///
/// Nothing here fails or connects, except for a key format that a Cluster could not use.
///
/// ```
/// use std::time::Duration;
/// use tidegate_store_redis::{RedisConfig, RedisStore};
///
/// let config: RedisConfig = "redis+cluster://10.0.0.1,10.0.0.2".parse()?;
/// let store = RedisStore::builder(config)
///     .prefix("shop:")
///     .secret("the same in all instances")
///     .deadline(Duration::from_millis(25))
///     .build();
/// assert!(store.is_available()); // until Redis fails to answer
/// # Ok::<(), tidegate_store_redis::RedisUrlError>(())
/// ```
///
/// The stores of one builder, and of its clones, share what they learn about their Sentinels.
#[derive(Clone, Debug)]
#[must_use]
pub struct RedisStoreBuilder {
    pub(crate) config: RedisConfig,
    /// Shared by all stores that this builder builds.
    pub(crate) destination: LinkDestination,
    pub(crate) prefix: String,
    pub(crate) key_format: Option<KeyFormat>,
    pub(crate) secret: [u8; 16],
    pub(crate) deadline: Duration,
    pub(crate) max_waiting: usize,
    pub(crate) manual_clock: Option<Arc<AtomicU64>>,
    pub(crate) without_twins: bool,
}

impl RedisStoreBuilder {
    /// Less than the 20 ms that Envoy waits, so that Envoy gets our answer and not its own.
    pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(10);

    pub(crate) fn new(config: RedisConfig) -> Self {
        Self {
            destination: LinkDestination::of(&config),
            config,
            prefix: String::new(),
            key_format: None,
            secret: secret_of(""),
            deadline: Self::DEFAULT_DEADLINE,
            max_waiting: 10_000,
            manual_clock: None,
            without_twins: false,
        }
    }

    /// A prefix for every key, for a Redis that is shared with other applications. Defaults to
    /// none. Has no effect with a [`key_format`](Self::key_format), which determines the whole
    /// name.
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Keeps counters under the names and in the format that another limiter uses, so that both
    /// count together; see [`KeyFormat`]. Our own keys are faster, smaller, and hold no user text.
    /// Charges that bring a [template of their own](tidegate_core::NameScheme::Template) use that
    /// instead.
    ///
    /// # Errors
    ///
    /// If Redis is a Cluster and the template has no hash tag that keeps an entity's windows
    /// together. Limits that the template does not suit are refused when they are decided, with an
    /// error of kind [`Misconfigured`](tidegate_store::StoreErrorKind::Misconfigured); to find out
    /// earlier, call [`KeyFormat::check`].
    pub fn key_format(self, format: KeyFormat) -> Result<Self, KeyFormatError> {
        if self.is_for_a_cluster() {
            format.check_cluster()?;
        }
        Ok(Self { key_format: Some(format), ..self })
    }

    pub(crate) const fn is_for_a_cluster(&self) -> bool {
        matches!(self.destination, LinkDestination::Cluster(_))
    }

    /// The deployment's secret. All its instances must have the same one, or they will not find
    /// each other's counters. Without the secret, nobody can tell which client a key belongs to.
    ///
    /// Keys are hashed under it, so that names in Redis reveal nothing. Changing it makes all counters start
    /// anew: the old ones are not found, and expire.
    pub fn secret(self, secret: &str) -> Self {
        Self { secret: secret_of(secret), ..self }
    }

    /// The time limit of a decision, whatever happens.
    ///
    /// If the policies come from a file, the longest deadline of any policy replaces this one: see
    /// [`Store::set_deadline`](tidegate_store::Store::set_deadline).
    ///
    /// A decision that Redis has not made by then is an error of kind
    /// [`Timeout`](tidegate_store::StoreErrorKind::Timeout), and the limiter decides without the store. Choose
    /// it well above the round trip: `RedisStore` reports a typical one
    /// ([`StoreHealth::round_trip`](tidegate_store::StoreHealth::round_trip)). Defaults to
    /// [`DEFAULT_DEADLINE`](Self::DEFAULT_DEADLINE).
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// How many requests may wait for Redis at a time. Requests beyond that fail immediately.
    ///
    /// They fail with an error of kind [`Overloaded`](tidegate_store::StoreErrorKind::Overloaded), and took
    /// nothing. Defaults to 10,000.
    pub fn max_waiting(self, max_waiting: usize) -> Self {
        Self { max_waiting, ..self }
    }

    /// Decides by [`RedisStore::set_now`] instead of Redis's clock.
    #[doc(hidden)]
    pub fn manual_clock(self) -> Self {
        Self { manual_clock: Some(Arc::default()), ..self }
    }

    /// Decides every limit as if no script knew its algorithm.
    #[doc(hidden)]
    pub fn without_twins(self) -> Self {
        Self { without_twins: true, ..self }
    }

    /// Builds the store. Does not connect yet.
    ///
    /// The first request connects, on the runtime that it runs on. A Redis that cannot be reached is an error
    /// of that request, not of this method.
    pub fn build(self) -> RedisStore {
        RedisStore::new(self)
    }
}

/// Derives the key of the hash function from a text of any length.
fn secret_of(text: &str) -> [u8; 16] {
    SipHasher24::new().hash(text.as_bytes()).as_bytes()
}
