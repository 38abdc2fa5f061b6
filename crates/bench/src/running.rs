//! Starts servers under load, each in its own process that is pinned to one core.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

/// The core of the servers.
pub(crate) const SERVERS_CORE: usize = 0;
/// The core of the load.
pub(crate) const LOADS_CORE: usize = 1;

/// A server that ends when dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Running {
    /// Starts one of our servers with these arguments. It prints its address.
    pub(crate) fn ours(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = servers()?;
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("the server's output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        Ok(Self { address: line.trim().parse().context("the server's address")?, child })
    }

    /// Starts a third-party server, and waits until it listens on this port.
    pub(crate) fn peer(program: &Path, arguments: &[&str], port: u16) -> anyhow::Result<Self> {
        let mut command = Command::new("taskset");
        command.args(["-c", &SERVERS_CORE.to_string()]).arg(program).args(arguments);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let server = Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)) };
        for _ in 0..1_000 {
            if std::net::TcpStream::connect(server.address).is_ok() {
                return Ok(server);
            }
            thread::park_timeout(Duration::from_millis(10));
        }
        bail!("nothing listens on {}", server.address)
    }

    /// Microseconds of processor time that it has used.
    pub(crate) fn cpu_micros(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields = stat.rsplit_once(") ").context("/proc/pid/stat")?.1;
        let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<f64>);
        let ticks: f64 = ticks.sum::<Result<f64, _>>()?;
        Ok(ticks * 1e6 / rustix::param::clock_ticks_per_second() as f64)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program that runs our own servers, without the counting allocator.
pub(crate) fn servers() -> anyhow::Result<Command> {
    let program = std::env::current_exe()?.with_file_name("tidegate-bench-servers");
    ensure!(program.exists(), "{} does not exist: scripts/bench builds it", program.display());
    Ok(Command::new(program))
}

/// Keeps this thread, and the processes that it starts, on one core if there are several.
pub(crate) fn pin_to(core: usize) -> anyhow::Result<()> {
    if thread::available_parallelism()?.get() > core {
        let mut cores = CpuSet::new();
        cores.set(core);
        sched_setaffinity(None, &cores)?;
    }
    Ok(())
}
