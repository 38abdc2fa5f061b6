//! New connections.

use std::time::Duration;

use tidegate::config::gateway::Scheme;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::cluster::Cluster;
use super::endpoint::Endpoint;
use super::wire::Wire;
use super::{Failure, tls};

/// A connection, and whether HTTP/2 is spoken on it.
pub(crate) async fn connect(
    cluster: &Cluster,
    endpoint: &Endpoint,
) -> Result<(Wire, bool), Failure> {
    let within = Duration::from(cluster.about.timeouts.connect);
    let connected = timeout(within, dial(cluster, endpoint)).await;
    connected.unwrap_or_else(|_| Err(Failure::Connect(format!("nobody answers within {within:?}"))))
}

async fn dial(cluster: &Cluster, endpoint: &Endpoint) -> Result<(Wire, bool), Failure> {
    let address = &endpoint.address;
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
    let stream = stream.map_err(|error| Failure::Connect(error.to_string()))?;
    // Requests are complete when they are written: waiting for more only delays them.
    let _ = stream.set_nodelay(true);
    match (address.scheme, &cluster.tls) {
        (Scheme::Https, Some(config)) => {
            let (stream, is_h2) = tls::secure(stream, &address.host, config.clone()).await?;
            Ok((Wire::Tls(Box::new(stream)), is_h2))
        }
        (scheme, _) => Ok((Wire::Plain(stream), scheme == Scheme::H2c)),
    }
}
