//! The engine behind the `tidegate` crate. Depend on `tidegate`; it re-exports this crate and
//! carries the documentation.
//!
//! A [`Limiter`] combines a policy, a store, and what to do without the store; a [`PlanLimiter`]
//! does the same for a configuration file. `tidegate-tower` and `tidegate-client` build on this
//! crate, and `tidegate` on all of them.
//!
//! ```
//! use tidegate::Limiter;
//!
//! let limiter = Limiter::builder().limit("3/minute").build()?;
//! assert!(limiter.check_now("alice").is_allowed());
//! # Ok::<(), tidegate::BuildError>(())
//! ```

#[cfg(feature = "macros")]
pub mod attribute;
mod builder;
mod by_fingerprint;
mod decision;
mod deny_cache;
mod fallback;
mod gate;
mod histogram;
mod leases;
mod limiter;
mod looked;
mod planned;
mod rate_limiter;
mod resolver;
#[cfg(feature = "serde")]
mod serial;
mod trouble;
mod vitals;
mod wait;

#[cfg(feature = "macros")]
pub use attribute::Denied;
pub use builder::{BuildError, LimitSpec, LimiterBuilder};
pub use decision::{Decision, Reason, Source};
pub use histogram::{Durations, Histogram};
pub use limiter::Limiter;
pub use planned::PlanLimiter;
pub use rate_limiter::RateLimiter;
pub use resolver::{KeyResolver, Resolved};
pub use vitals::StoreReport;
pub use wait::{Lines, NotReady, Patience, PlaceInLine, Turn};

#[cfg(feature = "macros")]
pub use tidegate_macros::rate_limit;

pub use tidegate_core::algorithm;
pub use tidegate_core::{
    AlgorithmKind, Calendar, Charge, Cost, CostTooLarge, Fingerprint, Limit, MAX_COUNT, Quota,
    QuotaError, Rule, Span, Timestamp, Verdict,
};
#[doc(hidden)]
pub use tidegate_policy::key_as_text;
pub use tidegate_policy::{
    AdHoc, Address, Attributes, CostFault, Key, KeyHasher, Network, NoNetwork, OnStoreError, Owed,
    OwnedKey, Plan, Policy, PolicyError, Precision, path_in_normal_form,
};

/// Configuration files: reading, checking, explaining and importing them.
pub mod config {
    pub use tidegate_core::{KeyTemplate, KeyTemplateError};
    pub use tidegate_policy::{
        Amended, Amendment, Block, Described, Descriptor, DescriptorStatus, DescriptorsOwed,
        Domain, Explained, LegacyHeaders, Mode, Outcome, PathCase, PathParameters, Place,
        PlannedPolicy, Precision, Problem, Problems, RequestRules, Settings, SingleLimit, Source,
        gateway, import, json_schema,
    };
}

pub use tidegate_store::{
    Board, Clock, LocalStore, ManualClock, MemoryStats, MemoryStore, MemoryStoreBuilder, Notice,
    Notices, Stopwatch, Store, StoreError, StoreErrorKind, SystemClock, Usage, Verdicts,
};
#[cfg(feature = "redis")]
pub use tidegate_store_redis::{
    KeyFormat, KeyFormatError, RedisConfig, RedisStore, RedisStoreBuilder, RedisUrlError,
};
