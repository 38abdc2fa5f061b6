//! The HTTP servers under measurement, each in its own process.

use std::path::Path;
use std::sync::Arc;

use tidegate::config::PolicySource;
use tidegate::{MemoryStore, RedisConfig, RedisStore, Store};
use tidegate_server::{App, HttpOptions, ListenerConfig};
use tidegate_testkit::free_port;
use tokio::net::TcpListener;

use super::bare;
use crate::running::{Running, SERVERS_CORE, pin_to};

const POLICIES: &str = "
policies:
  - { name: wide, key: [key], limits: [100000000/minute] }
  - { name: tight, key: [key], limits: [1/day] }
";

/// Starts one of our servers: `bare`, `ours`, or ours with the store at a URL.
pub(super) fn start(name: &str) -> anyhow::Result<Running> {
    Running::ours(&["http", name])
}

pub(super) fn start_throttlecrab(program: &Path) -> anyhow::Result<Running> {
    let port = free_port();
    let arguments = ["--http", "--http-host", "127.0.0.1", "--http-port", &port.to_string()];
    Running::peer(program, &arguments, port)
}

/// Runs one of our servers until the process ends.
pub(crate) fn serve(name: &str) -> anyhow::Result<()> {
    pin_to(SERVERS_CORE)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        match name {
            "bare" => bare::serve(listener).await,
            "ours" => ours(listener, MemoryStore::builder().max_keys(10_000_000).build()).await?,
            url => {
                let config: RedisConfig = url.parse()?;
                ours(listener, RedisStore::builder(config).build()).await?;
            }
        }
        Ok(())
    })
}

async fn ours<S: Store + 'static>(listener: TcpListener, store: S) -> anyhow::Result<()> {
    let app = Arc::new(App::load(&PolicySource::new("bench", POLICIES)?, store)?);
    let (config, options) = (ListenerConfig::default(), HttpOptions::default());
    tidegate_server::serve(listener, app, config, options, std::future::pending()).await;
    Ok(())
}
