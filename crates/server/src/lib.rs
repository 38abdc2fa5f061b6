//! The server: one limiter behind several listeners, each with its own protocol.
//!
//! [`Server`] opens listeners and runs them on one worker per core. [`serve`] runs a single HTTP
//! listener: it takes a listener and a future that ends it, so that a test can use port 0 and a
//! program its signals. [`App`] turns requests into decisions; the transports handle the bytes.
//!
//! ```
//! use std::sync::Arc;
//! use tidegate::MemoryStore;
//! use tidegate_server::{App, ListenerConfig, serve};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let app = Arc::new(App::demo(MemoryStore::new())?);
//! let shutdown = async { /* resolves when the server should stop */ };
//! serve(listener, app, ListenerConfig::default(), shutdown).await;
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
// All output goes through `log`: a line printed past it would break the JSON format.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod accept;
pub mod admin;
mod amendments;
mod app;
mod client_rights;
mod decision_attempt;
mod decisions;
mod example_request;
mod failed_logins;
mod files;
pub mod framing;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod idle;
mod instance_roster;
mod lent_stream;
mod limit_names;
mod listen_address;
mod listener;
mod listener_config;
pub mod log;
mod metrics;
mod named_files;
mod plan_followers;
mod policy_overflows;
mod reload;
mod seats;
mod server;
mod stream;
mod tls;
mod top;
pub mod trace;
mod transport;
mod worker;
mod worker_stores;

pub use app::App;
pub use client_rights::{ClientRight, ClientRights, ClientRightsError};
pub use decision_attempt::DecisionAttempt;
pub use example_request::example_request;
pub use idle::{IdleEnd, close_idle, close_idle_http2, wait_idle};
pub use instance_roster::InstanceRoster;
pub use lent_stream::{LentStream, StreamLender, lend};
pub use listen_address::{ListenAddress, ListenError};
pub use listener::{BoundAddress, Listener};
pub use listener_config::ListenerConfig;
pub use metrics::{ListenerKind, MetricFamily, MetricSource, RefusalReason};
pub use named_files::NamedFiles;
pub use plan_followers::PlanFollower;
pub use reload::{PlanReloader, ReloadAnswer, ReloadOutcome, ReloadRequest};
pub use seats::{ClientNetwork, GRACE, IdleSeat, QUIET, Seat, SeatUse};
pub use server::{Server, ShutdownSignal, Transport, TransportExtension};
pub use stream::{ClientStream, StreamPeer};
pub use tls::{ListenerTls, TlsFileError, TlsFiles, TlsReloadOutcome};
pub use transport::http::serve;
pub use worker::WorkerTask;
pub use worker_stores::WorkerStores;

/// Envoy's rate limit service, over gRPC.
pub mod grpc {
    pub use crate::transport::grpc::serve;
}

/// The Redis protocol.
pub mod resp {
    pub use crate::transport::resp::{Password, serve};
}
