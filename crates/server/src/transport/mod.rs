//! The transports: each takes a listener, an [`App`](crate::App) and a future that ends it.

pub(crate) mod grpc;
pub(crate) mod http;
mod partial_head;
pub(crate) mod resp;
