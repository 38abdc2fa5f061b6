//! From a first limit to several instances, step by step.
//!
//! # One limit
//!
//! A [`Limiter`](crate::Limiter) has a quota and counts by key. Create it once and share it:
//!
//! ```
//! use tidegate::Limiter;
//!
//! let limiter = Limiter::builder().name("search").limit("100/minute burst 20").build()?;
//! let decision = limiter.check_now("alice");
//! if !decision.is_allowed() {
//!     println!("again in {:?}", decision.retry_after());
//! }
//! # Ok::<(), tidegate::BuildError>(())
//! ```
//!
//! A quota with a burst is a token bucket, any other a sliding window; the
//! [table](crate#choosing-an-algorithm) says what each admits at most. Invalid limits are refused
//! when the limiter is built, so that a check has no errors.
//!
//! # Keys
//!
//! Keys are text, numbers, addresses and tuples of them; with the feature `macros`, `#[derive(Key)]` makes a
//! type of yours a key. The parts of a key are never mixed up, and only a fingerprint is stored. For an address use [`IpAddress`](crate::IpAddress), which is one key
//! however it is written, and counts an IPv6 network as one caller:
//!
//! ```
//! use tidegate::{IpAddress, Limiter};
//!
//! # fn main() -> Result<(), tidegate::BuildError> {
//! let limiter = Limiter::builder().limit("1/minute").build()?;
//! let caller = |text: &str| IpAddress::read(text.as_bytes());
//! assert!(limiter.check_now(&("login", caller("2001:db8::1").unwrap())).is_allowed());
//! assert!(!limiter.check_now(&("login", caller("[2001:DB8::2]:443").unwrap())).is_allowed());
//! # Ok(())
//! # }
//! ```
//!
//! # Several limits, and costs
//!
//! All limits of a limiter must pass, and either all are paid or none is. A [`Cost`](crate::Cost)
//! is taken whole or not at all; what was not used goes back:
//!
//! ```
//! use tidegate::Limiter;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tokens = Limiter::builder().limits(["1000/minute", "10000/day"]).build()?;
//! assert!(tokens.check_n("alice", 800).await.is_allowed());
//! tokens.refund("alice", 300).await?;
//! assert_eq!(tokens.peek("alice").await.remaining(), Some(500));
//! # Ok(())
//! # }
//! ```
//!
//! # Policies
//!
//! Tiers, overrides, conditions and penalties are better expressed in a file than in code: a
//! [`PlanLimiter`](crate::PlanLimiter) decides by one, and [follows](crate::PlanLimiter::watch) it while it runs.
//!
//! # Waiting instead of a refusal
//!
//! [`until_ready`](crate::Limiter::until_ready) waits in a queue, first come, first served: a leaky
//! bucket that smooths outgoing calls. See `examples/worker.rs`.
//!
//! # On functions
//!
//! With the feature `macros`, an attribute checks a limit before a function runs:
//!
//! ```
//! # #[cfg(feature = "macros")]
//! # fn main() {
//! use tidegate::{Denied, rate_limit};
//!
//! #[rate_limit(name = "resets", quota = "5/hour", key = |user| user)]
//! fn reset_password(user: u64) -> Result<(), Denied> {
//!     Ok(())
//! }
//! assert!(reset_password(7).is_ok());
//! # }
//! # #[cfg(not(feature = "macros"))]
//! # fn main() {}
//! ```
//!
//! # Several instances
//!
//! With the feature `redis`, a `RedisStore` shares the counters of all processes that know its
//! secret:
//!
//! ```
//! # #[cfg(feature = "redis")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tidegate::{Limiter, OnStoreError, RedisConfig, RedisStore};
//!
//! let config: RedisConfig = "redis://127.0.0.1:6379".parse()?;
//! let store = RedisStore::builder(config).secret("of this deployment").build();
//! let limiter = Limiter::builder()
//!     .name("api") // limiters with the same name share their counters
//!     .limit("100/minute")
//!     .store(store)
//!     .on_store_error(OnStoreError::Local) // what to do while Redis does not answer
//!     .expected_nodes(3)
//!     .build()?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "redis"))]
//! # fn main() {}
//! ```
//!
//! Decisions are the same to the last unit. A check never fails and never takes longer than the
//! store's deadline: if the store does not answer, the [failure mode](crate::OnStoreError) decides. When that
//! begins and ends is a [`StoreEvent`](crate::StoreEvent), or a line on standard error. `connect().await`
//! instead of `build()` fails if Redis is not there, and an [`AnyStore`](crate::AnyStore) is in memory or in Redis,
//! by a URL.
//!
//! # Tests
//!
//! Time comes from a [`Clock`](crate::Clock), which a test can move:
//!
//! ```
//! use std::time::Duration;
//! use tidegate::{Limiter, ManualClock, MemoryStore};
//!
//! let clock = ManualClock::default();
//! let store = MemoryStore::builder().clock(clock.clone()).build();
//! let limiter = Limiter::builder().limit("1/minute burst 1").store(store).build()?;
//! assert!(limiter.check_now("alice").is_allowed());
//! assert!(!limiter.check_now("alice").is_allowed());
//! clock.advance(Duration::from_secs(60));
//! assert!(limiter.check_now("alice").is_allowed());
//! # Ok::<(), tidegate::BuildError>(())
//! ```
//!
//! A [`TokioClock`](crate::TokioClock) follows tokio's paused time instead. Code that gets decisions is tested with
//! [`Decision::allow`](crate::Decision::allow) and [`Decision::deny`](crate::Decision::deny).
//!
//! # In a web service, and at its other end
//!
//! With the feature `tower` (and `axum` or `tonic`) there is a layer for services; with `client`
//! there is one for clients, which honours the limits of servers.
//!
//! ```
//! # #[cfg(feature = "axum")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use axum::{Router, routing::get};
//! use tidegate::tower::{RequestKey, RateLimitLayer};
//!
//! let limit = RateLimitLayer::new("100/minute burst 20")?.by(RequestKey::client_ip().trust_hops(1));
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(limit);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "axum"))]
//! # fn main() {}
//! ```
