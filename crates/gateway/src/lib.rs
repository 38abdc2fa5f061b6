//! The gateway: a reverse proxy that limits.
//!
//! [`Gateway`] says where requests go, according to a plan; [`serve`] answers on a listener. A
//! request is either unambiguous or refused, becomes charges like any other, and is written anew
//! for the service that its route leads to. Bodies are passed on as they come, in both directions.

// What is to be said goes through the server's log: anything else among its lines is no JSON.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod access_log;
mod after_cost;
mod attributes;
mod body;
mod buffers;
mod connection;
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
