//! A client of a limited server: all its calls succeed, because it waits when the server says so.
//!
//! ```console
//! $ cargo run -p tidegate-client --example survivor
//! ```

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use http::Request;
use reqwest::Body;
use tidegate_client::{ClientEvent, PoliteLayer, ReqwestService};
use tidegate_tower::RateLimitLayer;
use tower::{Layer, ServiceExt};

/// A server that accepts ten calls per second and refuses more.
pub(crate) async fn start_server() -> Result<SocketAddr, Box<dyn Error>> {
    let app = Router::new().route("/", get(|| async { "hello" }));
    let app = app.layer(RateLimitLayer::new("10/second burst 10")?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    Ok(address)
}

/// Makes so many calls, one after the other, and prints how often it had to wait.
pub(crate) async fn call(address: SocketAddr, calls: u32) -> Result<u32, Box<dyn Error>> {
    let polite = PoliteLayer::new().observer(|event: &ClientEvent| println!("{event:?}"));
    let client = polite.layer(ReqwestService::default());
    let mut answered = 0;
    for _ in 0..calls {
        let request = Request::get(format!("http://{address}/")).body(Body::default())?;
        let response = client.clone().oneshot(request).await?;
        answered += u32::from(response.status() == 200);
    }
    Ok(answered)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let answered = call(start_server().await?, 25).await?;
    println!("{answered} of 25 calls were answered");
    Ok(())
}
