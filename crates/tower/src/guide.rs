//! The common cases, one by one.
//!
//! # Who is counted
//!
//! By default, the client's address. Behind a proxy the connecting address is the proxy's, so set how
//! many proxies there are. Entries that clients write into `X-Forwarded-For` themselves change
//! nothing:
//!
//! ```
//! use tidegate::tower::{RequestKey, RateLimitLayer};
//!
//! let layer = RateLimitLayer::new("100/minute")?.by(RequestKey::client_ip().trust_hops(1));
//! # Ok::<(), tidegate::BuildError>(())
//! ```
//!
//! Behind authentication, the authenticated user. The layer that authenticates puts the user into
//! the request's extensions; requests without one are counted by address.
//!
//! ```
//! use tidegate::tower::{RequestKey, RateLimitLayer};
//!
//! #[derive(Clone)]
//! struct UserId(u64);
//!
//! let layer = RateLimitLayer::new("100/minute")?
//!     .by(RequestKey::extension(|user: &UserId| user.0).trust_hops(1));
//! # Ok::<(), tidegate::BuildError>(())
//! ```
//!
//! [`RequestKey`](crate::RequestKey) has more: headers, API keys, path templates, functions, and combinations.
//!
//! # Where the layer goes
//!
//! In axum, the last `.layer()` is the first to see a request: put authentication after the limit
//! by address, and before the limit by user. `.route_layer()` sees only requests that match a
//! route, and knows which:
//!
//! ```
//! # #[cfg(feature = "axum")]
//! # fn main() -> Result<(), tidegate::BuildError> {
//! use axum::{Router, routing::get};
//! use tidegate::tower::{RequestKey, RateLimitLayer};
//!
//! let each_route = RequestKey::all([RequestKey::client_ip(), RequestKey::path_template()]);
//! let app: Router = Router::new()
//!     .route("/users/{id}", get(|| async { "a user" }))
//!     .route("/search", get(|| async { "results" }))
//!     .route_layer(RateLimitLayer::new("10/second burst 20")?.by(each_route));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "axum"))]
//! # fn main() {}
//! ```
//!
//! For addresses, serve with `into_make_service_with_connect_info::<SocketAddr>()` and turn on the
//! feature `axum`. With tonic, the feature `tonic` is enough, also with tonic's TLS. Anywhere else, put
//! a [`PeerIp`](crate::PeerIp) into the extensions.
//!
//! # Several limits, another algorithm, Redis
//!
//! The limiter has all of that. Put it into an `Arc` to keep access to it, for example for resets:
//!
//! ```
//! use std::sync::Arc;
//! use tidegate::{AlgorithmKind, Limiter};
//! use tidegate::tower::{RequestKey, RateLimitLayer};
//!
//! let limiter = Arc::new(
//!     Limiter::builder()
//!         .name("uploads")
//!         .algorithm(AlgorithmKind::SlidingLog)
//!         .limits(["5/minute", "100/day"])
//!         .build()?,
//! );
//! let layer = RateLimitLayer::limiter(Arc::clone(&limiter)).by(RequestKey::header("x-account"));
//! limiter.reset_now("account 42");
//! # Ok::<(), tidegate::BuildError>(())
//! ```
//!
//! With the feature `redis`, `.store(RedisStore::builder(config).build())` shares the counters with
//! other processes; what happens if Redis does not answer is up to the limiter's `on_store_error`.
//!
//! # Tiers and policies
//!
//! A policy file has tiers, overrides, blocks and conditions on anything. The layer supplies what
//! it knows about a request; you add what it cannot know:
//!
//! ```
//! use tidegate::config::PolicySource;
//! use tidegate::{MemoryStore, PlanLimiter};
//! use tidegate::tower::{RequestKey, RateLimitLayer};
//!
//! #[derive(Clone)]
//! struct User { id: u64, plan: &'static str }
//!
//! let text = "
//! policies:
//!   - name: per-user
//!     key: [user]
//!     limits: [100/minute]
//!     tiers: [{ when: { plan: pro }, limits: [10000/day] }]
//! ";
//! let limiter = PlanLimiter::load(&PolicySource::new("limits.yaml", text)?, MemoryStore::new())?;
//! let layer = RateLimitLayer::limiter(limiter)
//!     .attribute("user", RequestKey::extension(|user: &User| user.id.to_string()))
//!     .attribute("plan", RequestKey::extension(|user: &User| user.plan));
//! # Ok::<(), tidegate::config::FileProblems>(())
//! ```
//!
//! If the file names `trusted_proxies`, those determine the `ip`; otherwise
//! [`by`](crate::RateLimitLayer::by) sets which proxies to trust.
//!
//! [`policy_file`](crate::RateLimitLayer::policy_file) reads a file, and
//! [`watch`](crate::RateLimitLayer::watch) follows it. Policies of one file are charged together or not at all, while
//! layers are charged one by one: a request that an inner layer denies has already paid the outer one.
//!
//! # Costs
//!
//! [`cost`](crate::RateLimitLayer::cost) is known before a request,
//! [`cost_of_response`](crate::RateLimitLayer::cost_of_response) after it: the tokens of a model, the rows of a query.
//! Take an estimate first, so that callers cannot begin more than they may pay for:
//!
//! ```
//! use tidegate::tower::RateLimitLayer;
//!
//! #[derive(Clone)]
//! struct Tokens(u64);
//!
//! let layer = RateLimitLayer::new("10000/hour")?
//!     .cost(|_| 100)
//!     .cost_of_response(|response| response.extensions().get().map(|Tokens(tokens)| *tokens));
//! # Ok::<(), tidegate::BuildError>(())
//! ```
//!
//! # Waiting
//!
//! [`wait`](crate::RateLimitLayer::wait) smooths bursts: requests of one caller wait in line, instead of being
//! answered with 429.
//!
//! # Outside of tower
//!
//! [`check_request`](crate::RateLimitLayer::check_request) decides about a request of any framework, and returns the
//! response or the fields to add. See `examples/adapter.rs`.
//!
//! # Passwords
//!
//! Count only wrong passwords, so that users who know theirs are not limited.
//! [`count_failures`](crate::RateLimitLayer::count_failures) would do, but it counts a broken database too:
//!
//! ```
//! use tidegate::tower::RateLimitLayer;
//!
//! let layer = RateLimitLayer::new("5/minute")?.count_if(|response| response.status() == 401);
//! # Ok::<(), tidegate::BuildError>(())
//! ```
//!
//! To lock out clients that fail too often, use a policy with `block_for`. The fifth failure within a
//! minute blocks the address for a quarter of an hour:
//!
//! ```
//! use tidegate::config::PolicySource;
//! use tidegate::{MemoryStore, PlanLimiter};
//! use tidegate::tower::RateLimitLayer;
//!
//! let text = "policies: [{ name: login, key: [ip], limits: [5/minute], block_for: 15m }]";
//! let limiter = PlanLimiter::load(&PolicySource::new("limits.yaml", text)?, MemoryStore::new())?;
//! let layer = RateLimitLayer::limiter(limiter).count_failures();
//! # Ok::<(), tidegate::config::FileProblems>(())
//! ```
//!
//! # Before it is enforced
//!
//! A shadow counts and denies nothing. Observe what it would have done:
//!
//! ```
//! use tidegate::tower::RateLimitLayer;
//!
//! let layer = RateLimitLayer::new("100/minute")?.shadow().observe(|head, decision| {
//!     if !decision.is_allowed() {
//!         println!("{} would have been denied", head.uri().path());
//!     }
//! });
//! # Ok::<(), tidegate::BuildError>(())
//! ```
//!
//! # Tests
//!
//! Time comes from the store's clock, which a test can move:
//!
//! ```
//! use std::time::Duration;
//! use tidegate::{Limiter, ManualClock, MemoryStore};
//! use tidegate::tower::RateLimitLayer;
//!
//! let clock = ManualClock::default();
//! let store = MemoryStore::builder().clock(clock.clone()).build();
//! let layer = RateLimitLayer::limiter(Limiter::builder().limit("1/minute").store(store).build()?);
//! // ... one request passes, and the next does not ...
//! clock.advance(Duration::from_secs(120));
//! // ... and the next one does.
//! # Ok::<(), tidegate::BuildError>(())
//! ```
//!
//! Addresses are those that the test sets: axum's `MockConnectInfo`, or a [`PeerIp`](crate::PeerIp) in the request's
//! extensions. [`enabled(false)`](crate::RateLimitLayer::enabled) turns the layer off where a test is about
//! something else.
