//! Connections: from the socket over TLS to HTTP. Nothing here knows limits: `xtask/tests/edges.rs` checks
//! that this folder uses neither `service` nor `transport`.

pub mod accept;
pub mod connection;
pub mod framing;
pub(crate) mod idle;
mod listen_address;
pub(crate) mod listener;
mod listener_config;
pub(crate) mod seats;
mod stall_timer;
mod stream;
mod tls;
pub(crate) mod worker;

pub use listen_address::{ListenAddress, ListenError};
pub use listener::{BoundAddress, Listener};
pub use listener_config::ListenerConfig;
pub use seats::{ClientNetwork, GRACE, Seat};
pub use stall_timer::StallTimer;
pub use stream::{ClientStream, StreamPeer};
pub use tls::{ListenerTls, TlsFileError, TlsFiles, TlsReloadOutcome};
pub use worker::WorkerTask;
