//! A login that can be attempted five times a minute, and twenty times an hour, with a wrong
//! password. Right ones do not count.
//!
//! ```console
//! $ cargo run -p tidegate-tower --features axum --example login
//! $ for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{http_code}\n' -d guess http://127.0.0.1:3000/login; done
//! ```

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use tidegate::{AlgorithmKind, Limiter};
use tidegate_tower::{RateLimitLayer, RequestKey};

async fn login(password: String) -> StatusCode {
    if password == "correct horse" { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
}

pub(crate) fn app() -> Result<Router, Box<dyn Error>> {
    // A log is exact, and attempts are few.
    let attempts = Limiter::builder()
        .name("login")
        .algorithm(AlgorithmKind::SlidingLog)
        .limits(["5/minute", "20/hour"])
        .build()?;
    let limit = RateLimitLayer::limiter(attempts).by(RequestKey::client_ip()).count_failures();
    Ok(Router::new()
        .route("/login", post(login))
        // Only for the routes above: a route layer does not see requests that match no route.
        .route_layer(limit)
        .route("/", get(|| async { "not limited\n" })))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let app = app()?.into_make_service_with_connect_info::<SocketAddr>();
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}
