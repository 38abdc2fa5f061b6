//! Rate limiting that is exact, fast and bounded.
//!
//! ```
//! use tidegate::Limiter;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder().limit("3/minute").build()?;
//!
//! for _ in 0..3 {
//!     assert!(limiter.check("alice").await.is_allowed());
//! }
//! let decision = limiter.check("alice").await;
//! assert!(!decision.is_allowed());
//! println!("try again in {:?}", decision.retry_after());
//!
//! assert!(limiter.check("bob").await.is_allowed());
//! # Ok(())
//! # }
//! ```
//!
//! - [`Limiter`] decides. [`check`](Limiter::check) takes one unit, [`check_n`](Limiter::check_n)
//!   several, [`peek`](Limiter::peek) none; [`until_ready`](Limiter::until_ready) waits in line
//!   instead of being refused. With a store in this process, [`check_now`](Limiter::check_now)
//!   needs no `await`.
//! - [`Decision`] says allowed or not, and everything a client wants to know.
//! - [`Key`] tells callers apart: text, numbers, addresses, tuples of them, or your own type.
//! - [`Quota`] is read from `100/minute`, `5 per 10s` or `1000/1h burst 200`.
//!
//! The [`guide`] goes from a first limit to several instances.
//!
//! # Features
//!
//! None is on by default, and none changes what a decision means. What is for HTTP is in crates of its
//! own, which depend on this one.
//!
//! | feature | | crates of others |
//! |---|---|--:|
//! | none | policies and their files, the embedded store, waiting in line | 38 |
//! | `macros` | the attribute `rate_limit` | 39 |
//! | `serde` | decisions are written, limits are read | 39 |
//! | `redis` | counters in Redis, also behind Sentinel, on a Cluster and over TLS | 99 |
//! | the crate `tidegate-tower` | a layer for axum, tonic and hyper | 51 |
//! | the crate `tidegate-client` | a layer for clients, which heeds what servers say | 45 |
//!
//! # Choosing an algorithm
//!
//! | | admits at most, in any span d up to the window W | memory a key |
//! |---|---|---|
//! | [`FixedWindow`](AlgorithmKind::FixedWindow) | 2 L, at a window's edge | constant |
//! | [`SlidingWindow`](AlgorithmKind::SlidingWindow) (default) | L (1 + d/W); about L on ordinary traffic | constant |
//! | [`SlidingLog`](AlgorithmKind::SlidingLog) | L, always | about 3 bytes a request |
//! | [`TokenBucket`](AlgorithmKind::TokenBucket) (with a burst) | burst + L d/W | constant |
//!
//! A denied request costs nothing, with every algorithm. Several limits pay together or not at
//! all.

/// The README's program is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(feature = "macros")]
pub mod attribute;
mod builder;
mod by_fingerprint;
mod decision;
mod deny_cache;
mod fallback;
mod gate;
pub mod guide;
mod histogram;
mod leases;
mod limiter;
mod planned;
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
pub use limiter::{Limiter, RateLimiter};
pub use planned::PlanLimiter;
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
pub use tidegate_policy::{
    AdHoc, Address, Attributes, Key, Network, NoNetwork, OnStoreError, Owed, OwnedKey, Plan,
    Policy, PolicyError, Precision, path_in_normal_form,
};

/// Configuration files: reading, checking, explaining and importing them.
pub mod config {
    pub use tidegate_policy::{
        Amended, Amendment, Block, Described, Descriptor, DescriptorStatus, DescriptorsOwed,
        Domain, Explained, KeyFormat, LegacyHeaders, Mode, Outcome, Place, PlannedPolicy,
        Precision, Problem, Problems, Settings, Source, gateway, import, json_schema,
    };
}

pub use tidegate_store::{
    Board, Clock, LocalStore, ManualClock, MemoryStats, MemoryStore, Notice, Notices, Stopwatch,
    Store, StoreError, StoreErrorKind, SystemClock, Usage, Verdicts,
};
#[cfg(feature = "redis")]
pub use tidegate_store_redis::{
    KeyFormat, KeyFormatError, RedisConfig, RedisStore, RedisStoreBuilder, RedisUrlError,
};
