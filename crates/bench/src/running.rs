//! Starts the servers that are measured, each in its own process. All of them share one core, and
//! the load has another.

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

/// A server in its own process, which ends when this is dropped.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Running {
    /// Starts a server of the program [`servers`] with these arguments. It pins itself to its core,
    /// and prints its address.
    pub(crate) fn ours(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = servers()?;
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("the server's output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        Ok(Self { address: line.trim().parse().context("the server's address")?, child })
    }

    /// Starts another project's server on the servers' core, and waits until it listens on this
    /// port.
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

    /// Microseconds of processor time that the server has used so far.
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

/// A command that starts the program of our own servers, the bare ones included. It has
/// the allocator of `tidegate` itself, and not the counting one of the benchmarks.
pub(crate) fn servers() -> anyhow::Result<Command> {
    let program = std::env::current_exe()?.with_file_name("tidegate-bench-servers");
    ensure!(program.exists(), "{} does not exist: scripts/bench builds it", program.display());
    Ok(Command::new(program))
}

/// Keeps this thread, and the processes that it starts, on this core. Does nothing if there are too
/// few cores.
pub(crate) fn pin_to(core: usize) -> anyhow::Result<()> {
    if thread::available_parallelism()?.get() > core {
        let mut cores = CpuSet::new();
        cores.set(core);
        sched_setaffinity(None, &cores)?;
    }
    Ok(())
}
