//! The server: one limiter behind several listeners.
//!
//! [`Server`] opens listeners and runs them on one worker per core. [`serve`] runs a single HTTP
//! listener: it takes a listener and a future that ends it, so that a test can use port 0 and a
//! program its signals. Requests become decisions in [`App`]; everything about bytes stays in the
//! transports.
//!
//! ```
//! use std::sync::Arc;
//! use tidegate::MemoryStore;
//! use tidegate_server::{App, Config, serve};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let app = Arc::new(App::demo(MemoryStore::new())?);
//! let shutdown = async { /* until somebody says stop */ };
//! serve(listener, app, Config::default(), shutdown).await;
//! # Ok(())
//! # }
//! ```

// What is to be said goes through `log`: anything else among its lines is no JSON.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod accept;
mod address;
pub mod admin;
mod amendments;
mod app;
mod attempt;
mod config;
mod deciding;
mod files;
mod followers;
pub mod framing;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod lent;
mod limit_names;
mod listener;
pub mod log;
mod logins;
mod metrics;
mod named_files;
mod overflows;
mod per_worker;
mod reload;
mod rest;
mod rights;
mod roll;
mod room;
mod server;
mod stream;
mod tls;
mod top;
pub mod trace;
mod transport;
mod worker;

pub use address::{Address, OpenError};
pub use app::App;
pub use attempt::Attempt;
pub use config::Config;
pub use followers::Follower;
pub use lent::{Lender, Lent, lend};
pub use listener::{Listener, Place};
pub use metrics::{ListenerKind, MetricFamily, MetricSource, RefusalReason};
pub use named_files::NamedFiles;
pub use per_worker::PerWorker;
pub use reload::{ReloadAnswer, ReloadRequest, Reloaded, Reloader};
pub use rest::{Stirred, leave, leave_http2, rest};
pub use rights::{Right, Rights, RightsError};
pub use roll::Roll;
pub use room::{ClientNetwork, GRACE, QUIET, Rest, Seat, SeatUse};
pub use server::{Guest, Server, Shutdown, Transport};
pub use stream::{Peer, Stream};
pub use tls::{Tls, TlsError, TlsFiles, TlsReloaded};
pub use transport::http::serve;
pub use worker::Work;

/// Envoy's rate limit service, over gRPC.
pub mod grpc {
    pub use crate::transport::grpc::serve;
}

/// The Redis protocol.
pub mod resp {
    pub use crate::transport::resp::{Password, serve};
}
