//! The gateway: a reverse proxy with rate limits.
//!
//! [`Gateway`] holds the routes and services of a plan; [`serve`] answers requests on a listener. An
//! ambiguous request is refused. Any other request is charged like a check, and is written anew for
//! the service of its route. Bodies are streamed in both directions.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Output goes through the server's log: any other text between its lines would not be JSON.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod access_log;
mod after_cost;
mod attributes;
mod body;
mod buffers;
pub mod config;
mod detachable_work;
mod early_denial;
mod forward;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod jwt;
mod metrics;
mod refusal;
mod request_target;
mod response_peek;
mod route_fields;
mod runtime;
mod services;
mod session;
mod transfer_activity;
mod tunnel;
mod upstream;
mod wait_queue;
mod worker;

pub use gateway::Gateway;
pub use services::GatewayError;
pub use worker::serve;
