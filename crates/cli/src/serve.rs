//! `tidegate serve`: the server.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use tidegate::{MemoryStore, Store};
use tidegate_server::{App, Config, serve};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What can be said about it.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Where to answer HTTP; port 0 picks a free one
    #[arg(long, env = "TIDEGATE_HTTP", value_name = "ADDR", default_value = "127.0.0.1:8080")]
    http: String,
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        tokio::runtime::Runtime::new().context("cannot start a runtime")?.block_on(self.serve())
    }

    async fn serve(self) -> anyhow::Result<()> {
        let listener = bind(&self.http).await?;
        let app = Arc::new(App::demo(MemoryStore::builder().max_keys(MAX_KEYS).build())?);
        // Before the first line is printed: whoever has read it may send a signal.
        let stop = Stop::new().context("cannot listen for signals")?;
        // A server goes on without anybody to read its greeting.
        let _ = io::stdout().write_all(greeting(listener.local_addr()?, &app).as_bytes());
        serve(listener, app, Config::default(), stop.wait()).await;
        Ok(())
    }
}

async fn bind(address: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            anyhow!("{address:?} is not an address: expected host:port, such as 127.0.0.1:8080")
        }
        _ => anyhow!("cannot listen on {address:?}: {error}"),
    })
}

fn greeting<S: Store>(address: SocketAddr, app: &App<S>) -> String {
    let (policy, key) = (app.policy().name(), app.key_attribute());
    let mut text = format!("listening on http://{address}\n");
    text += &format!("store: memory, at most {MAX_KEYS} keys\npolicies:\n");
    for rule in app.policy().rules() {
        let (quota, algorithm) = (rule.limit.quota(), rule.limit.kind());
        let _ = writeln!(text, "  {policy}: {quota} {algorithm} by {key}");
    }
    let body = format!(r#"{{"policy": "{policy}", "key": "alice"}}"#);
    let _ = writeln!(text, "try: curl -i http://{address}/v1/check -d '{body}'");
    text
}

/// The signals that end a server.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    async fn wait(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

const MAX_KEYS: usize = 1_000_000;
