//! The services behind the gateway: choice of an address, connections, sending, and health.

mod client_shares;
mod cluster;
mod connect;
mod counts;
mod endpoint;
mod endpoint_log;
mod failure;
mod h1;
mod h2;
pub(crate) mod health;
mod pool;
mod request;
mod stream;
mod tls;
mod upload;

use std::sync::Arc;

pub(crate) use cluster::UpstreamCluster;
pub(crate) use counts::UpstreamResult;
pub(crate) use endpoint::UpstreamEndpoint;
pub(crate) use failure::UpstreamFailure;
#[cfg(any(test, fuzzing))]
pub(crate) use h1::fuzz;
pub(crate) use h1::{ForwardFraming, UpstreamHttp1Body, UpstreamLink, parse_digits};
pub(crate) use pool::UpstreamPool;
pub(crate) use request::{UpstreamRequest, UpstreamResponse};
pub(crate) use tls::UpstreamTlsError;

/// A request that is under way to an address; it ends on drop.
#[derive(Debug)]
pub(crate) struct UpstreamSlot {
    endpoint: Arc<UpstreamEndpoint>,
    pool: Arc<UpstreamPool>,
    /// The share of its client, while slots are short.
    _share: Option<client_shares::ClientShare>,
}
