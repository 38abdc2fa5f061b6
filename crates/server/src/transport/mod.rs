//! The transports: each takes a listener, an [`App`](crate::App) and a future that ends it.

pub(crate) mod grpc;
mod half;
pub(crate) mod http;
pub(crate) mod resp;
