//! The engine behind the `tidegate` crate. Depend on `tidegate`; it re-exports this crate and
//! carries the documentation.
//!
//! A [`Limiter`] combines a policy, a store, and the behaviour without the store; a [`PlanLimiter`]
//! does the same for a configuration file. `tidegate-tower` and `tidegate-client` build on this
//! crate, and `tidegate` builds on all of them.
//!
//! ```
//! use tidegate::Limiter;
//!
//! let limiter = Limiter::builder().limit("3/minute").build()?;
//! assert!(limiter.check_now("alice").is_allowed());
//! # Ok::<(), tidegate::BuildError>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod any_limiter;
mod any_store;
#[cfg(feature = "macros")]
pub mod attribute;
#[cfg(feature = "blocking")]
mod blocking;
mod builder;
mod decider;
mod decision;
mod deny_cache;
mod fallback;
mod fingerprint_map;
mod grpc_status;
mod histogram;
mod lease_table;
mod limiter;
mod notice;
mod peek_verdict;
#[cfg(feature = "files")]
mod plan_limiter;
mod rate_limiter;
mod resolver;
#[cfg(feature = "serde")]
mod serial;
mod store_event;
mod store_outage;
mod store_trouble;
mod store_vitals;
mod tokio_clock;
mod wait_queue;

pub use any_limiter::AnyLimiter;
pub use any_store::{AnyStore, StoreUrlError};
#[cfg(feature = "macros")]
pub use attribute::Denied;
pub use builder::{BuildError, LimitSpec, LimiterBuilder};
pub use decision::{Decision, DecisionReason, DecisionSource};
#[doc(hidden)]
pub use grpc_status::grpc_status_details;
pub use histogram::{Histogram, HistogramSnapshot};
pub use limiter::Limiter;
#[doc(hidden)]
pub use notice::notice;
#[cfg(feature = "files")]
pub use plan_limiter::{ChargeIntent, PlanFileEvent, PlanLimiter, PlanWatch};
pub use rate_limiter::RateLimiter;
pub use resolver::{KeyResolver, ResolvingLimiter};
pub use store_event::StoreEvent;
pub use store_vitals::StoreReport;
pub use tokio_clock::TokioClock;
#[cfg(feature = "files")]
pub use wait_queue::WaitInLine;
pub use wait_queue::{WaitError, WaitLimits, WaitQueues};

#[cfg(feature = "macros")]
pub use tidegate_macros::{Key, rate_limit};

pub use tidegate_core::algorithm;
pub use tidegate_core::{
    AlgorithmKind, CalendarPeriod, Charge, ChargeNames, Cost, CostTooLarge, Fingerprint, Limit,
    MAX_COUNT, NameScheme, Quota, QuotaError, Rule, Span, Timestamp, Verdict,
};
#[doc(hidden)]
pub use tidegate_core::{SplitMix, text};
#[doc(hidden)]
pub use tidegate_policy::key_as_text;
#[cfg(feature = "files")]
pub use tidegate_policy::{
    AdHocLimit, Attributes, CostFault, Plan, RequestCharges, path_in_normal_form,
};
pub use tidegate_policy::{
    IpAddress, IpNetwork, IpNetworkError, Key, KeyHasher, OnStoreError, OwnedKey, Policy,
    PolicyError, Precision,
};

/// Configuration files: reading, checking, explaining and importing them. Requires the feature `files`.
#[cfg(feature = "files")]
pub mod config {
    pub use tidegate_policy::{
        FileProblem, FileProblems, LegacyHeaders, PathCase, PathParameters, PlanSettings,
        PlannedPolicy, PolicyMode, PolicySource, RequestRules, SourceSpan, import, json_schema,
    };

    // For the other crates of this workspace.
    #[doc(hidden)]
    pub use tidegate_core::{KeyTemplate, KeyTemplateError};
    #[doc(hidden)]
    pub use tidegate_policy::{
        AmendedPlan, Amendment, BlockPenalty, Descriptor, DescriptorCharges, DescriptorOutcome,
        EnvoyDomain, LimitDescription, PolicyExplanation, PolicyMatch, Precision, SecretText,
        Sections, SingleLimit,
    };
}

pub use tidegate_store::{
    Clock, LocalStore, ManualClock, MemoryStats, MemoryStore, MemoryStoreBuilder, Promise,
    PromiseFuture, SettingEntry, SettingsSnapshot, SettleResult, SharedSettings, Stopwatch, Store,
    StoreError, StoreErrorKind, StoreHealth, StoreProfile, StoreUsage, SystemClock, Verdicts,
};
#[cfg(feature = "redis")]
pub use tidegate_store_redis::{
    KeyFormat, KeyFormatError, RedisConfig, RedisStore, RedisStoreBuilder, RedisUrlError,
};
