//! The gateway: a reverse proxy that limits.
//!
//! [`Gateway`] is where requests go, by a plan; [`serve`] answers on a listener. A request is
//! understood in one way or refused, becomes charges like any other, and is written anew for the
//! service that its route leads to. Bodies are passed on as they come, both ways.

mod after;
mod asked;
mod attributes;
mod body;
mod connection;
mod forward;
mod gateway;
mod jwt;
mod line;
mod log;
mod metrics;
mod movement;
mod problem;
mod routed_by;
mod runtime;
mod session;
mod standing;
mod tunnel;
mod upstream;
mod worker;

pub use gateway::Gateway;
pub use runtime::GatewayError;
pub use worker::serve;
