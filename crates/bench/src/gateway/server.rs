//! The gateway under measurement, in its own process. It has one thread, as a worker of the server
//! has.

use std::sync::Arc;

use tidegate::config::PolicySource;
use tidegate::{MemoryStore, RedisStore, Store};
use tidegate_gateway::config::GatewayPlan;
use tidegate_gateway::{Gateway, serve as serve_gateway};
use tidegate_server::{App, ListenerConfig};
use tokio::net::TcpListener;

/// Serves until it is killed. `listen` is an address, `upstream` a URL, `store` either `memory` or
/// the URL of a Redis, and `limit` the limit of each client address.
pub(crate) fn serve(listen: &str, upstream: &str, store: &str, limit: &str) -> anyhow::Result<()> {
    let text = format!("policies: [{{ name: bench, key: [ip], limits: [{limit}] }}]");
    let source = PolicySource::new("bench", text)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match store {
        "memory" => runtime.block_on(run(listen, upstream, &source, MemoryStore::new())),
        url => runtime.block_on(async {
            let store = RedisStore::builder(url.parse()?).secret("bench").build();
            run(listen, upstream, &source, store).await
        }),
    }
}

async fn run<S: Store + 'static>(
    listen: &str,
    upstream: &str,
    source: &PolicySource,
    store: S,
) -> anyhow::Result<()> {
    let app = Arc::new(App::load(source, store)?);
    let to = GatewayPlan::to(upstream).map_err(anyhow::Error::msg)?;
    let gateway = Arc::new(Gateway::new(app.limiter().plan(), Some(to))?);
    let listener = TcpListener::bind(listen).await?;
    serve_gateway(listener, app, gateway, ListenerConfig::default(), std::future::pending()).await;
    Ok(())
}
