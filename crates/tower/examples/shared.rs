//! One limit for several processes, counted in Redis.
//!
//! ```console
//! $ cargo run -p tidegate-tower --features axum,redis --example shared -- redis://127.0.0.1:6379 127.0.0.1:3000
//! $ cargo run -p tidegate-tower --features axum,redis --example shared -- redis://127.0.0.1:6379 127.0.0.1:3001
//! $ for i in $(seq 30); do curl -s http://127.0.0.1:$((3000 + i % 2))/; done
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tidegate::{Limiter, OnStoreError, RedisConfig, RedisStore};
use tidegate_tower::RateLimitLayer;

/// Each decision takes no longer than the deadline, whatever Redis does.
pub(crate) fn app(redis: &str, deadline: Duration) -> Result<Router, Box<dyn Error>> {
    let config: RedisConfig = redis.parse()?;
    // Processes with the same secret share the counters.
    let store = RedisStore::builder(config).secret("of this deployment").deadline(deadline).build();
    let limiter = Limiter::builder()
        .name("shared")
        .limit("10/day")
        .store(store)
        // Two processes: each has half of the limit while Redis is unavailable.
        .on_store_error(OnStoreError::Local)
        .expected_nodes(2)
        .build()?;
    let limit = RateLimitLayer::limiter(limiter);
    Ok(Router::new().route("/", get(|| async { "hello\n" })).layer(limit))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let redis = arguments.next().unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    let app =
        app(&redis, Duration::from_millis(10))?.into_make_service_with_connect_info::<SocketAddr>();
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}
