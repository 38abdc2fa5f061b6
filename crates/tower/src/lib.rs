//! A rate limiting layer for axum, tonic, hyper and any other tower service of `http::Request`s.
//!
//! ```
//! use axum::{Router, routing::get};
//! use tidegate::tower::RateLimitLayer;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let app = Router::new()
//!         .route("/", get(|| async { "hello" }))
//!         .layer(RateLimitLayer::new("100/minute burst 20")?);
//!
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//!     let app = app.into_make_service_with_connect_info::<std::net::SocketAddr>();
//!     # return Ok(drop(axum::serve(listener, app)));
//!     axum::serve(listener, app).await?;
//!     Ok(())
//! }
//! ```
//!
//! - [`RateLimitLayer`] configures the limit: [`by`](RateLimitLayer::by) which [`RequestKey`], at what
//!   [`cost`](RateLimitLayer::cost), what to [`skip`](RateLimitLayer::skip), and what to answer
//!   [`on_denied`](RateLimitLayer::on_denied).
//! - [`RateLimitLayer::limiter`] takes any limiter of `tidegate`, including one whose counters are
//!   in Redis, and [`policy_file`](RateLimitLayer::policy_file) takes whole policies with tiers.
//! - Handlers find the `Decision` in the request's extensions, and in axum with [`RateLimitDecision`].
//!
//! The [`guide`] covers the common cases. Depend on `tidegate` with its feature `tower`, `axum` or
//! `tonic`; it re-exports this crate as `tidegate::tower`.
//!
//! # Features
//!
//! None is on by default, and none changes how limits count. `axum`: addresses, path templates
//! and the extractor. `tonic`: addresses. `redis`: tidegate's `RedisStore`. `tracing`: warnings as
//! events instead of on standard error.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod attributes;
mod backend;
mod body;
mod config;
mod denial;
#[cfg(feature = "axum")]
mod extract;
mod future;
pub mod guide;
mod head;
mod key;
mod layer;
mod layer_file;
mod plan_warnings;
mod request_check;
mod service;
mod waiting;
mod warnings;

pub use backend::IntoBackend;
pub use body::ResponseBody;
pub use denial::Denial;
#[cfg(feature = "axum")]
pub use extract::RateLimitDecision;
pub use future::ResponseFuture;
pub use head::{PeerIp, RequestHead, ResponseHead};
pub use key::RequestKey;
pub use layer::RateLimitLayer;
pub use request_check::AllowedRequest;
pub use service::RateLimit;
