//! Builds a limiter, or reports everything that is wrong with its settings.

mod error;
mod limit_spec;

use std::fmt;
use std::sync::Arc;

use tidegate_core::AlgorithmKind;
use tidegate_policy::{KeyHasher, OnStoreError, Policy, Precision};
use tidegate_store::{MemoryStore, Store};

pub use self::error::BuildError;
pub use self::limit_spec::LimitSpec;
use crate::decider::Decider;
use crate::notice::notice;
use crate::store_event::StoreObserver;
use crate::store_outage::StoreOutage;
use crate::wait_queue::{WaitLimits, WaitQueues};
use crate::{Limiter, StoreEvent};

/// Builds a [`Limiter`].
///
/// ```
/// use tidegate::Limiter;
///
/// let error = Limiter::builder().limits(["5/minute", "lots/hour"]).build().unwrap_err();
/// assert!(error.to_string().contains(r#""lots" is not a whole number"#));
/// ```
#[must_use]
pub struct LimiterBuilder<S = MemoryStore> {
    /// `default` if it was not set.
    name: Option<String>,
    algorithm: Option<AlgorithmKind>,
    limits: Vec<LimitSpec>,
    store: S,
    shadow: bool,
    stagger: bool,
    on_store_error: OnStoreError,
    precision: Precision,
    expected_nodes: u32,
    wait_limits: WaitLimits,
    on_store_event: Option<StoreObserver>,
}

impl Default for LimiterBuilder {
    fn default() -> Self {
        Self {
            name: None,
            algorithm: None,
            limits: Vec::new(),
            store: MemoryStore::new(),
            shadow: false,
            stagger: false,
            on_store_error: OnStoreError::default(),
            precision: Precision::default(),
            expected_nodes: 1,
            wait_limits: WaitLimits::default(),
            on_store_event: None,
        }
    }
}

impl<S: Store> LimiterBuilder<S> {
    /// The policy's name, as decisions and headers show it. Defaults to `default`.
    ///
    /// The name is part of the counters' identity: limiters on one store with the same name, algorithm
    /// and window share their counters. Give each its own name, above all in Redis.
    ///
    /// ```
    /// use tidegate::Limiter;
    ///
    /// let limiter = Limiter::builder().name("password-reset").limit("5/hour").build()?;
    /// assert_eq!(limiter.policy().name(), "password-reset");
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Adds a limit: a quota string, a [`Quota`](crate::Quota) or a [`Limit`](crate::Limit). All limits
    /// must pass.
    ///
    /// Several limits are charged together or not at all: a request that one of them denies takes nothing from
    /// the others.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Limit, Limiter, Quota};
    ///
    /// let quota: Quota = "1000/hour".parse()?;
    /// let exact = Limit::new(AlgorithmKind::SlidingLog, &"5/second".parse()?)?;
    /// let limiter = Limiter::builder().limit("100/minute").limit(quota).limit(exact).build()?;
    /// assert_eq!(limiter.policy().rules().len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn limit(mut self, limit: impl Into<LimitSpec>) -> Self {
        self.limits.push(limit.into());
        self
    }

    /// Adds several limits.
    pub fn limits<L: Into<LimitSpec>>(mut self, limits: impl IntoIterator<Item = L>) -> Self {
        self.limits.extend(limits.into_iter().map(Into::into));
        self
    }

    /// The algorithm of limits given as quotas. Defaults to a token bucket for a quota with a
    /// burst, and a sliding window for any other.
    ///
    /// It does not change a [`Limit`](crate::Limit), which has its own. [`AlgorithmKind`] lists the
    /// algorithms, and the guide compares them.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Limiter};
    ///
    /// // Never more than five in any minute.
    /// let limiter = Limiter::builder().algorithm(AlgorithmKind::SlidingLog).limit("5/minute").build()?;
    /// assert_eq!(limiter.policy().rules()[0].limit.kind(), AlgorithmKind::SlidingLog);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn algorithm(self, algorithm: AlgorithmKind) -> Self {
        Self { algorithm: Some(algorithm), ..self }
    }

    /// Observes without limiting: the limiter gives verdicts, but every request passes.
    ///
    /// Use it to try a limit on real traffic: log the decisions whose verdicts deny, and enforce the limit when
    /// you like what you see.
    ///
    /// ```
    /// use tidegate::Limiter;
    ///
    /// let limiter = Limiter::builder().limit("1/day").shadow().build()?;
    /// assert!(limiter.check_now("alice").is_allowed());
    /// let decision = limiter.check_now("alice");
    /// assert!(decision.is_allowed() && !decision.verdicts()[0].allowed);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn shadow(self) -> Self {
        Self { shadow: true, ..self }
    }

    /// Lets each key's windows begin at their own time, so that not all keys reset at the same moment.
    ///
    /// Without it, all windows of a limit begin together, at multiples of the window since the epoch, and callers
    /// that wait for the next window come back together. When a key's windows begin follows from the key and
    /// stays the same.
    pub fn stagger(self) -> Self {
        Self { stagger: true, ..self }
    }

    /// What to do if the store does not answer. Defaults to [`OnStoreError::Local`].
    ///
    /// It only matters for remote stores: a store in this process always answers.
    ///
    /// ```
    /// use tidegate::{Limiter, OnStoreError};
    ///
    /// // Rather no password reset than an unlimited number of them.
    /// let limiter = Limiter::builder().limit("5/hour").on_store_error(OnStoreError::Closed).build()?;
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn on_store_error(self, on_store_error: OnStoreError) -> Self {
        Self { on_store_error, ..self }
    }

    /// How exact decisions are when instances share a remote store. Defaults to
    /// [`Precision::CachedDeny`], which is exact.
    ///
    /// [`Precision::Leased`] is for hot keys: an instance takes units in advance for later requests, so
    /// that most decisions need no store.
    ///
    /// ```
    /// use tidegate::{Limiter, Precision};
    ///
    /// // Up to 5 % of the limit is taken in advance, so up to 5 % of it may go unused or late.
    /// let leased = Precision::Leased { max_over_permille: 50 };
    /// let limiter = Limiter::builder().limit("10000/second").precision(leased).build()?;
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// How many instances share the limits. With [`OnStoreError::Local`], each instance has its part of
    /// the limits, rounded up, while the store does not answer. With [`Precision::Leased`], each has its
    /// part of the units that can be taken in advance. Defaults to 1.
    pub fn expected_nodes(self, expected_nodes: u32) -> Self {
        Self { expected_nodes, ..self }
    }

    /// The longest wait and the longest queue of [`Limiter::until_ready`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Limiter, WaitLimits};
    ///
    /// let patience = WaitLimits { max_wait: Duration::from_secs(2), max_queue: 10 };
    /// let limiter = Limiter::builder().limit("10/second").wait_limits(patience).build()?;
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn wait_limits(self, wait_limits: WaitLimits) -> Self {
        Self { wait_limits, ..self }
    }

    /// Calls `observer` when the store is lost and when it is found again; see [`StoreEvent`]. Without an
    /// observer, each event is one line on standard error, or an event of `tracing` with that feature.
    ///
    /// The observer runs within a decision: it should count or log, and not wait.
    ///
    /// ```
    /// use tidegate::{Limiter, StoreEvent};
    ///
    /// let limiter = Limiter::builder()
    ///     .limit("100/minute")
    ///     .on_store_event(|event| match event {
    ///         StoreEvent::Lost { problem } => eprintln!("limits are per process now: {problem}"),
    ///         other => eprintln!("{other}"),
    ///     })
    ///     .build()?;
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn on_store_event(self, observer: impl Fn(&StoreEvent) + Send + Sync + 'static) -> Self {
        Self { on_store_event: Some(Arc::new(observer)), ..self }
    }

    /// Keeps the counters elsewhere. Defaults to a [`MemoryStore`].
    ///
    /// A store in an `Arc` is a store too, so several limiters can share one. With the feature `redis`,
    /// `RedisStore` keeps the counters where all instances of a program find them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::{Limiter, MemoryStore};
    ///
    /// let store = Arc::new(MemoryStore::builder().max_keys(100_000).build());
    /// let logins = Limiter::builder().name("logins").limit("5/minute").store(Arc::clone(&store)).build()?;
    /// let calls = Limiter::builder().name("calls").limit("100/minute").store(store).build()?;
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn store<T: Store>(self, store: T) -> LimiterBuilder<T> {
        LimiterBuilder {
            name: self.name,
            algorithm: self.algorithm,
            limits: self.limits,
            store,
            shadow: self.shadow,
            stagger: self.stagger,
            on_store_error: self.on_store_error,
            precision: self.precision,
            expected_nodes: self.expected_nodes,
            wait_limits: self.wait_limits,
            on_store_event: self.on_store_event,
        }
    }

    /// Builds the limiter, or reports everything that is wrong.
    ///
    /// # Errors
    ///
    /// [`BuildError`]: all invalid limits at once, a lease that is too large, or a policy that makes no sense, such
    /// as one without limits. A limiter that was built cannot fail later.
    pub fn build(self) -> Result<Limiter<S>, BuildError> {
        let (mut limits, mut wrong) = (Vec::new(), Vec::new());
        for spec in self.limits {
            match spec.compile(self.algorithm) {
                Ok(limit) => limits.push(limit),
                Err(error) => wrong.push(error),
            }
        }
        if !wrong.is_empty() {
            return Err(BuildError::Limits(wrong));
        }
        if let Precision::Leased { max_over_permille } = self.precision
            && !Precision::MAX_OVER_PERMILLE.contains(&max_over_permille)
        {
            return Err(BuildError::MaxOver(max_over_permille));
        }
        let secret = self.store.profile().shared_secret;
        let hasher = secret.map_or_else(KeyHasher::of_this_process, KeyHasher::shared);
        if self.name.is_none() && secret.is_some() {
            notice(UNNAMED);
        }
        let name = self.name.unwrap_or_else(|| "default".to_owned());
        let outage = StoreOutage::of(&name, self.on_store_event);
        let mut policy = Policy::with_hasher(hasher, name, limits)?;
        if self.shadow {
            policy = policy.shadowed();
        }
        if self.stagger {
            policy = policy.staggered();
        }
        let limit_names = match self.store.profile().names_keys {
            true => policy.limit_names(),
            false => Vec::new(),
        };
        Ok(Limiter {
            policy,
            limit_names,
            decider: Decider::new(self.store, self.expected_nodes).with_outage(outage),
            on_store_error: self.on_store_error,
            precision: self.precision,
            wait_limits: self.wait_limits,
            queues: WaitQueues::default(),
        })
    }
}

/// The settings, without the store and its counters.
impl<S> fmt::Debug for LimiterBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimiterBuilder")
            .field("name", &self.name)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

const UNNAMED: &str = "a limiter without a name counts in a store that other limiters may use: those with the \
     same name (`default`), algorithm and window share its counters. Give it a name";

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Limit, Quota, QuotaError};

    #[test]
    fn every_bad_limit_is_reported() {
        let error = Limiter::builder().limits(["x/s", "1/s", "1/y"]).build().unwrap_err();
        let BuildError::Limits(wrong) = &error else { panic!("{error}") };
        assert_eq!(wrong.iter().map(QuotaError::value).collect::<Vec<_>>(), ["x/s", "1/y"]);
        assert_eq!(error.to_string().lines().count(), 2);
    }

    #[test]
    fn a_lease_is_a_part_of_a_limit() {
        for (max_over_permille, is_fine) in [(0, false), (1, true), (500, true), (501, false)] {
            let leased = Precision::Leased { max_over_permille };
            let built = Limiter::builder().limit("1000/s").precision(leased).build();
            assert_eq!(built.is_ok(), is_fine, "{max_over_permille}");
        }
    }

    #[test]
    fn a_limiter_without_limits_is_refused() {
        let error = Limiter::builder().name("api").build().unwrap_err();
        assert!(error.to_string().contains(r#""api" has 0 limits: expected 1 to 32"#));
    }

    #[test]
    fn the_algorithm_applies_to_quotas_and_not_to_limits() {
        let limit: Limit = "1/s".parse().unwrap();
        let quota: Quota = "1/m".parse().unwrap();
        let limiter = Limiter::builder()
            .algorithm(AlgorithmKind::FixedWindow)
            .limit(limit)
            .limit(quota)
            .limit("1/h".to_owned())
            .build()
            .unwrap();
        let kinds: Vec<_> = limiter.policy().rules().iter().map(|rule| rule.limit.kind()).collect();
        use AlgorithmKind::{FixedWindow, SlidingWindow};
        assert_eq!(kinds, [SlidingWindow, FixedWindow, FixedWindow]);
    }
}
