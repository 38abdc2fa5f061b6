//! A client for rate limited servers: it waits when the server says so, paces itself before it is
//! refused, and backs off with jitter.
//!
//! ```
//! use std::convert::Infallible;
//! use http::{Request, Response};
//! use tidegate::client::PoliteLayer;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Any tower service of http requests: hyper's client, a test's, or reqwest's by `ReqwestService`.
//! let http = service_fn(|request: Request<String>| async move {
//!     Ok::<_, Infallible>(Response::new(format!("you asked for {}", request.uri())))
//! });
//!
//! let client = PoliteLayer::new().layer(http);
//! let response = client.oneshot(Request::get("/tides").body(String::new())?).await?;
//! assert_eq!(response.body(), "you asked for /tides");
//! # Ok(())
//! # }
//! ```
//!
//! What it does, for each server that it talks to:
//!
//! - **It honours `Retry-After`**, in seconds or as a date. That of a 429 or a 503 holds for all requests
//!   to that server, also for those that already wait. Nothing is sent earlier, unless the wait is longer
//!   than [a day](PoliteLayer::max_block).
//! - **It paces.** `RateLimit` and `RateLimit-Policy` show how much is left, and for how long. Below half
//!   of a quota, requests are spread over the rest of its window. Pacing is a courtesy and fails no call:
//!   only a refusal does.
//! - **It retries** requests that can be sent twice, with a random wait on top of `Retry-After`, so that
//!   not all clients return at the same moment; with exponential backoff if there is no `Retry-After`.
//!   Attempts, total wait and a [`RetryBudget`] bound the retries.
//! - **It refuses calls locally**, if it has an [`AdaptiveThrottle`], while the server refuses most.
//!
//! A [`ClientObserver`] gets all of these events.
//!
//! reqwest's client is not a tower service of http requests: with the feature `reqwest`, `ReqwestService`
//! makes it one. [`examples/survivor.rs`] does that.
//!
//! With the feature `remote`, the module `remote` asks a Tidegate server for decisions.
//!
//! Timers are tokio's, so a test can pause them.
//!
//! [`examples/survivor.rs`]: https://github.com/tidegate/tidegate/blob/main/crates/client/examples/survivor.rs

#![cfg_attr(docsrs, feature(doc_cfg))]

mod allowance;
mod backoff;
mod bare_item;
mod budget;
mod call;
mod error;
mod field_item;
mod known_server;
mod known_servers;
mod layer;
mod observer;
mod pacer;
#[cfg(feature = "remote")]
pub mod remote;
mod replay;
#[cfg(feature = "reqwest")]
mod reqwest_service;
mod rules;
mod scope;
mod send_schedule;
mod server_limits;
mod service;
mod state;
mod throttle;

pub use backoff::RetryBackoff;
pub use budget::RetryBudget;
pub use error::PoliteError;
pub use layer::PoliteLayer;
pub use observer::{ClientEvent, ClientObserver, GiveUpReason};
pub use replay::{BodyReplay, ClonedBodies, EmptyBodies};
#[cfg(feature = "reqwest")]
pub use reqwest_service::ReqwestService;
pub use service::PoliteClient;
pub use throttle::AdaptiveThrottle;
