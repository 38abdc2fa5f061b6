//! The servers of the Redis protocol under measurement, each in its own process.

use std::path::Path;
use std::sync::Arc;

use tidegate::MemoryStore;
use tidegate::config::PolicySource;
use tidegate_server::resp::{self, RespOptions};
use tidegate_server::{App, ListenerConfig};
use tidegate_testkit::free_port;
use tokio::net::TcpListener;

use super::bare;
use crate::running::{Running, SERVERS_CORE, pin_to};

/// The server that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contestant {
    Bare,
    Ours,
    Throttlecrab,
}

const POLICIES: &str = "
policies:
  - { name: wide, key: [key], limits: [100000000/minute] }
  - { name: tight, key: [key], limits: [1/day] }
";

impl Contestant {
    /// `program` is throttlecrab's.
    pub(super) fn start(self, program: Option<&Path>) -> anyhow::Result<Running> {
        match (self, program) {
            (Self::Throttlecrab, Some(program)) => {
                let port = free_port();
                let host = ["--redis", "--redis-host", "127.0.0.1", "--redis-port"];
                Running::peer(program, &[&host[..], &[&port.to_string()]].concat(), port)
            }
            (Self::Bare, _) => Running::ours(&["resp", "bare"]),
            _ => Running::ours(&["resp", "ours"]),
        }
    }
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
            _ => {
                let store = MemoryStore::builder().max_keys(10_000_000).build();
                let app = App::load(&PolicySource::new("bench", POLICIES)?, store)?;
                resp::serve(
                    listener,
                    Arc::new(app),
                    ListenerConfig::default(),
                    RespOptions::default(),
                    std::future::pending(),
                )
                .await;
            }
        }
        Ok(())
    })
}
