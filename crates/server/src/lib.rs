//! The server: one limiter behind several listeners, each with its own protocol.
//!
//! [`Server`] opens listeners and runs them on one worker per core. [`serve`] runs a single HTTP
//! listener: it takes a listener and a future that ends it, so that a test can use port 0 and a
//! program its signals. [`App`] turns requests into decisions; the transports handle the bytes.
//!
//! ```
//! use std::sync::Arc;
//! use tidegate::MemoryStore;
//! use tidegate_server::{App, HttpOptions, ListenerConfig, serve};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let app = Arc::new(App::demo(MemoryStore::new())?);
//! let shutdown = async { /* resolves when the server should stop */ };
//! serve(listener, app, ListenerConfig::default(), HttpOptions::default(), shutdown).await;
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
// All output goes through `log`: a line printed past it would break the JSON format.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod files;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod net;
mod server;
mod service;
mod transport;

pub use net::{
    BoundAddress, ClientNetwork, ClientStream, GRACE, ListenAddress, ListenError, Listener,
    ListenerConfig, ListenerTls, Seat, StallTimer, StreamPeer, TlsFileError, TlsFiles,
    TlsReloadOutcome, WorkerTask, accept, connection, framing,
};
pub use server::{Server, ShutdownSignal, Transport, TransportExtension, TransportOptions};
pub use service::{
    App, AppExtension, ClientRight, ClientRights, ClientRightsError, InstanceRoster, ListenerKind,
    MetricFamily, NamedFiles, PlanReloader, RefusalReason, ReloadAnswer, ReloadOutcome,
    ReloadRequest, WorkerStores, example_request, log, trace,
};
pub use transport::admin;
pub use transport::http::{HttpOptions, serve};

/// Envoy's rate limit service, over gRPC.
pub mod grpc {
    pub use crate::transport::grpc::{GrpcOptions, serve};
}

/// The Redis protocol.
pub mod resp {
    pub use crate::transport::resp::{Password, RespOptions, serve};
}
