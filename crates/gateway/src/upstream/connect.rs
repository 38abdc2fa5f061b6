//! Opens connections to services, with or without TLS.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::cluster::UpstreamCluster;
use super::endpoint::UpstreamEndpoint;
use super::stream::UpstreamStream;
use super::{UpstreamFailure, tls};
use crate::config::UpstreamScheme;

/// A new connection, and whether it uses HTTP/2.
pub(crate) async fn connect(
    cluster: &UpstreamCluster,
    endpoint: &UpstreamEndpoint,
) -> Result<(UpstreamStream, bool), UpstreamFailure> {
    let within = Duration::from(cluster.config.timeouts.connect);
    let connected = timeout(within, dial(cluster, endpoint)).await;
    connected
        .unwrap_or_else(|_| Err(UpstreamFailure::Connect(format!("no response within {within:?}"))))
}

async fn dial(
    cluster: &UpstreamCluster,
    endpoint: &UpstreamEndpoint,
) -> Result<(UpstreamStream, bool), UpstreamFailure> {
    let address = &endpoint.address;
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
    let stream = stream.map_err(|error| UpstreamFailure::Connect(error.to_string()))?;
    // Requests are written in whole pieces: waiting for more bytes would only delay them.
    let _ = stream.set_nodelay(true);
    match (address.scheme, &cluster.tls) {
        (UpstreamScheme::Https, Some(config)) => {
            let (stream, is_h2) = tls::secure(stream, &address.host, config.clone()).await?;
            Ok((UpstreamStream::Tls(Box::new(stream)), is_h2))
        }
        (scheme, _) => Ok((UpstreamStream::Plain(stream), scheme == UpstreamScheme::H2c)),
    }
}
