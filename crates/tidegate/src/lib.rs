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
//! The [`guide`] goes from a first limit to several instances.
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
//! | `macros` | the attribute `rate_limit` | 20 |
//! | `serde` | decisions can be serialised, limits deserialised | 23 |
//! | `redis` | counters in Redis, including Sentinel, Cluster and TLS | 85 |
//! | `tower` | `tower::RateLimitLayer`: a layer for axum, tonic and hyper; includes `files` | 49 |
//! | `axum` | the same, with addresses and path templates as axum knows them, and an extractor | 67 |
//! | `tonic` | the same, with addresses as tonic knows them | 83 |
//! | `client` | `client::PoliteLayer`: a layer for clients, which honours the limits of servers | 30 |
//! | `reqwest` | the same, around reqwest's client | 82 |
//! | `tracing` | the layer's warnings as events instead of on standard error | |
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

/// Runs the programs in the README and docs as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/rust.md")]
struct DocumentTests;

pub mod guide;

#[doc(inline)]
pub use tidegate_limiter::*;

/// A polite client for rate limited servers. Requires the feature `client`; with `reqwest` it wraps a reqwest
/// client.
#[cfg(feature = "client")]
pub mod client {
    #[doc(inline)]
    pub use tidegate_client::*;
}

/// A rate limiting layer for axum, tonic and hyper. Requires the feature `tower`; with `axum` or
/// `tonic` it uses the addresses and routes that they provide.
#[cfg(feature = "tower")]
pub mod tower {
    #[doc(inline)]
    pub use tidegate_tower::*;
}
