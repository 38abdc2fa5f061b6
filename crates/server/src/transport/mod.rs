//! The transports. Each one serves a listener with an [`App`](crate::App) until a shutdown future resolves.

pub(crate) mod grpc;
pub(crate) mod http;
mod partial_head;
pub(crate) mod resp;
