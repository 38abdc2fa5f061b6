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
//!   several, [`peek`](Limiter::peek) none; [`until_ready`](Limiter::until_ready) waits in a queue
//!   instead of being denied. With a store in this process, [`check_now`](Limiter::check_now)
//!   needs no `await`.
//! - [`Decision`] holds whether the request is allowed, and everything to report to a client.
//! - [`Key`] distinguishes callers: text, numbers, addresses, tuples of them, or your own type.
//! - [`Quota`] is parsed from `100/minute`, `5 per 10s` or `1000/1h burst 200`.
//!
//! The [`guide`] goes from a first limit to several instances. The oldest compiler that is supported is Rust 1.89.
//!
//! # Features
//!
//! Only `files` is on by default, and none changes decisions. A program whose limits are in its code
//! needs no files: with `default-features = false` it compiles few crates.
//!
//! | feature | | third-party crates, without default features |
//! |---|---|--:|
//! | none | policies in code, the embedded store, wait queues | 16 |
//! | `files` | policy files, [`Plan`] and [`PlanLimiter`]; on by default | 36 |
//! | `macros` | the attribute `rate_limit`, and `#[derive(Key)]` | 20 |
//! | `serde` | decisions can be serialised, limits deserialised | 23 |
//! | `redis` | counters in Redis, including Sentinel, Cluster and TLS | 85 |
//! | `http` | `http`: a decision as `RateLimit` fields and as a response; includes `files` | 46 |
//! | `tower` | `tower::RateLimitLayer`: a layer for axum, tonic and hyper; includes `files` | 49 |
//! | `axum` | the same, with addresses and path templates as axum knows them, an extractor, and denied calls as responses | 67 |
//! | `tonic` | the same, with addresses as tonic knows them, and denied calls as statuses | 83 |
//! | `client` | `client::PoliteLayer`: a layer for clients, which honours the limits of servers | 30 |
//! | `reqwest` | the same, around reqwest's client | 82 |
//! | `remote` | `client::remote::RemoteLimiter`: asks a Tidegate server for decisions | 88 |
//! | `tracing` | warnings, and events of the store, as events instead of on standard error | |
//!
//! # Choosing an algorithm
//!
//! | | admits at most, in any span d up to the window W | memory per key |
//! |---|---|---|
//! | [`FixedWindow`](AlgorithmKind::FixedWindow) | 2 L, at a window's edge | constant |
//! | [`SlidingWindow`](AlgorithmKind::SlidingWindow) (default) | L (1 + d/W); about L on ordinary traffic | constant |
//! | [`SlidingLog`](AlgorithmKind::SlidingLog) | L, always | about 3 bytes per request |
//! | [`TokenBucket`](AlgorithmKind::TokenBucket) (with a burst) | burst + L d/W | constant |
//! | [`SteppedWindow`](AlgorithmKind::SteppedWindow) | L, always; a unit comes back a step late | a count for each step |
//!
//! With small limits, a sliding window is stricter than it says: of requests that arrive exactly at the
//! rate, it admits 90 % at `10/minute` and half at `1/minute`, because each request also weighs on the
//! next window. Below about 20, choose a sliding log or a burst.
//!
//! A denied request costs nothing, with any algorithm. Several limits are paid together or not at
//! all.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod guide;

// What a program uses, by name: a new item of another crate is not part of this one until it is listed here.
// `xtask/tests/public_items.rs` keeps the list.
#[doc(inline)]
pub use tidegate_limiter::{
    AlgorithmKind, AnyLimiter, AnyStore, BuildError, CalendarPeriod, Charge, ChargeNames, Clock,
    Cost, CostTooLarge, Decision, DecisionReason, DecisionSource, Fingerprint, HistogramSnapshot,
    IpAddress, IpNetwork, IpNetworkError, Key, KeyResolver, Limit, LimitSpec, Limiter,
    LimiterBuilder, LocalStore, ManualClock, MemoryStats, MemoryStore, MemoryStoreBuilder,
    NameScheme, OnStoreError, OwnedKey, Policy, PolicyError, Precision, Promise, Quota, QuotaError,
    RateLimiter, ResolvingLimiter, Rule, SettleResult, Span, Store, StoreError, StoreErrorKind,
    StoreEvent, StoreHealth, StoreProfile, StoreReport, StoreUrlError, StoreUsage, SystemClock,
    Timestamp, TokioClock, Verdict, Verdicts, WaitError, WaitLimits,
};

#[cfg(feature = "files")]
#[doc(inline)]
pub use tidegate_limiter::{
    Attributes, ChargeIntent, Plan, PlanFileEvent, PlanLimiter, PlanWatch, RequestCharges, config,
};

#[cfg(feature = "macros")]
#[doc(inline)]
pub use tidegate_limiter::{Denied, attribute, rate_limit};

#[cfg(feature = "redis")]
#[doc(inline)]
pub use tidegate_limiter::{
    KeyFormat, KeyFormatError, RedisConfig, RedisStore, RedisStoreBuilder, RedisUrlError,
};

/// A decision in HTTP, without the layer: its `RateLimit` fields, the response to a denied request, the client
/// behind proxies. Requires the feature `http`.
///
/// ```
/// use http::HeaderMap;
/// use tidegate::Limiter;
/// use tidegate::http::{RateLimitAnswer, describe};
///
/// let limiter = Limiter::builder().name("api").limit("100/minute burst 20").build()?;
/// let decision = limiter.check_now("alice");
/// let mut headers = HeaderMap::new();
/// describe(&RateLimitAnswer::of_policy(limiter.policy(), &decision), &mut headers);
/// assert_eq!(headers["ratelimit-policy"], r#""api";q=100;w=60"#);
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[cfg(feature = "http")]
pub mod http {
    #[doc(inline)]
    pub use tidegate_http::{
        ClientIp, HttpRequest, LimitReport, RateLimitAnswer, RateLimitFields, RequestFault, denial,
        describe,
    };
}

#[cfg(feature = "client")]
#[doc(inline)]
pub use tidegate_client as client;

#[cfg(feature = "tower")]
#[doc(inline)]
pub use tidegate_tower as tower;

// For the other crates of this workspace. Not part of the interface: these may change at any time.
#[cfg(feature = "files")]
#[doc(hidden)]
pub use tidegate_limiter::{AdHocLimit, CostFault, WaitInLine, path_in_normal_form};
#[doc(hidden)]
pub use tidegate_limiter::{
    Histogram, KeyHasher, MAX_COUNT, PromiseFuture, SettingEntry, SettingsSnapshot, SharedSettings,
    SplitMix, Stopwatch, WaitQueues, algorithm, grpc_status_details, key_as_text, notice, text,
};
