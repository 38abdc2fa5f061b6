//! The other side of a limit: a client that waits when it is told to, paces itself before it is
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
//! - **It listens.** `Retry-After`, in seconds or as a date, of a 429 or a 503 holds for all requests
//!   to that server, also for those that wait already. Nothing is sent earlier than told, unless that
//!   is in more than [a day](PoliteLayer::max_block).
//! - **It paces.** `RateLimit` and `RateLimit-Policy` say how much is left, for how long. Below half of
//!   a quota, requests are spread over what is left of its window. That is a courtesy, and fails no
//!   call: only a refusal does.
//! - **It retries** what may be sent twice, with a random wait on top of what was told, so that not
//!   everyone comes back at once; with exponential backoff where nothing was told. Within a number
//!   of attempts, a time, and a [`RetryBudget`].
//! - **It refuses by itself**, if told to by an [`AdaptiveThrottle`], while the server refuses most.
//!
//! A [`ClientObserver`] hears of all of it.
//!
//! reqwest's client is no service of http requests: with the feature `reqwest`, `ReqwestService` makes
//! one of it. [`examples/survivor.rs`] does that.
//!
//! Timers are tokio's, so a test can pause them.
//!
//! [`examples/survivor.rs`]: https://github.com/tidegate/tidegate/blob/main/crates/client/examples/survivor.rs

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
