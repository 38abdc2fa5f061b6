//! Services: where requests are sent, and how answers come back.

mod cluster;
mod connect;
mod counts;
mod endpoint;
mod failure;
mod h1;
mod h2;
pub(crate) mod health;
mod news;
mod patience;
mod pool;
mod send;
mod shares;
mod tls;
mod upload;
mod wire;

use std::sync::Arc;

pub(crate) use cluster::Cluster;
pub(crate) use counts::Fate;
pub(crate) use endpoint::Endpoint;
pub(crate) use failure::Failure;
#[cfg(any(test, fuzzing))]
pub(crate) use h1::fuzz;
pub(crate) use h1::{Framing, Link, StreamedBody, digits};
pub(crate) use patience::Patience;
pub(crate) use pool::Pool;
pub(crate) use send::{Answered, Sending};
pub(crate) use tls::TlsError;

/// A request that is under way to an address, until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    endpoint: Arc<Endpoint>,
    pool: Arc<Pool>,
    /// Its client's, while places are short.
    _place: Option<shares::Place>,
}
