//! The servers, each in a process of its own that is pinned to one core.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::thread::{CpuSet, sched_setaffinity};
use tidegate::MemoryStore;
use tidegate::config::Source;
use tidegate_server::{App, Config, resp};
use tidegate_testkit::free_port;
use tokio::net::TcpListener;

use super::bare;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contestant {
    Bare,
    Ours,
    Throttlecrab,
}

/// The core of the servers; the load has another one.
const CORE: usize = 0;

const POLICIES: &str = "
policies:
  - { name: wide, key: [key], limits: [100000000/minute] }
  - { name: tight, key: [key], limits: [1/day] }
";

/// A server that ends with the value.
pub(super) struct Running {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Running {
    pub(super) fn start(contestant: Contestant, program: Option<&Path>) -> anyhow::Result<Self> {
        let mut command = match (contestant, program) {
            (Contestant::Throttlecrab, Some(program)) => {
                let port = free_port().to_string();
                let mut command = Command::new("taskset");
                command.args(["-c", &CORE.to_string()]).arg(program);
                command.args(["--redis", "--redis-host", "127.0.0.1", "--redis-port", &port]);
                let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
                let server = Self { child, address: format!("127.0.0.1:{port}").parse()? };
                return server.once_it_listens();
            }
            _ => Command::new(std::env::current_exe()?),
        };
        let name = if contestant == Contestant::Bare { "bare" } else { "ours" };
        let mut child = command.args(["serve-resp", name]).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("the server's output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        Ok(Self { address: line.trim().parse().context("the server's address")?, child })
    }

    fn once_it_listens(self) -> anyhow::Result<Self> {
        for _ in 0..1_000 {
            if std::net::TcpStream::connect(self.address).is_ok() {
                return Ok(self);
            }
            thread::park_timeout(Duration::from_millis(10));
        }
        bail!("nobody listens on {}", self.address)
    }

    /// Microseconds of processor that it has used.
    pub(super) fn cpu_micros(&self) -> anyhow::Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields = stat.rsplit(") ").next().context("fields")?.split(' ');
        let ticks: Vec<u64> = fields.skip(11).take(2).filter_map(|it| it.parse().ok()).collect();
        // A hundred a second, wherever Linux runs.
        Ok(ticks.iter().sum::<u64>() * 10_000)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps this thread on one core, where there are several.
pub(super) fn pin_to(core: usize) -> anyhow::Result<()> {
    if thread::available_parallelism()?.get() > core {
        let mut cores = CpuSet::new();
        cores.set(core);
        sched_setaffinity(None, &cores)?;
    }
    Ok(())
}

/// Runs one of our own servers for as long as the process lives.
pub(crate) fn serve(name: &str) -> anyhow::Result<()> {
    pin_to(CORE)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        match name {
            "bare" => bare::serve(listener).await,
            _ => {
                let store = MemoryStore::builder().max_keys(10_000_000).build();
                let app = App::load(&Source::new("bench", POLICIES)?, store)?;
                resp::serve(listener, Arc::new(app), Config::default(), std::future::pending())
                    .await;
            }
        }
        Ok(())
    })
}
