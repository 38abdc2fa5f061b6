//! A gRPC service behind a limit: tonic's health service as an example.
//!
//! ```console
//! $ cargo run -p tidegate-tower --features tonic --example grpc
//! ```

use std::error::Error;

use tidegate_tower::{RateLimitLayer, RequestKey};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// Serves until it is dropped. A client that calls too often gets RESOURCE_EXHAUSTED, with a `RetryInfo`
/// that says when to retry.
pub(crate) async fn serve(incoming: TcpIncoming) -> Result<(), Box<dyn Error>> {
    let (_reporter, health) = tonic_health::server::health_reporter();
    let limit = RateLimitLayer::new("3/minute")?.by(RequestKey::client_ip().trust_hops(0));
    Server::builder().layer(limit).add_service(health).serve_with_incoming(incoming).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let incoming = TcpIncoming::bind("127.0.0.1:50051".parse()?)?;
    println!("listening on http://{}", incoming.local_addr()?);
    serve(incoming).await
}
