//! Programs that tests run beside us: proxies, clients, load generators.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::process::{Process, dying_with_us, local, on_path};
use crate::scratch::Scratch;
use crate::wait::happens;

/// The path of a program that `scripts/peers` installs. `None` if it is not available, which is
/// reported on standard error, bypassing the capture of passing tests' output.
///
/// ```
/// if let Some(curl) = tidegate_testkit::peer("curl") {
///     assert!(std::process::Command::new(curl).arg("--version").output()?.status.success());
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn peer(name: &str) -> Option<PathBuf> {
    let installed = peers().map(|peers| peers.join("bin").join(name)).filter(|it| it.is_file());
    let found = installed.or_else(|| on_path(name));
    if found.is_none() {
        skipped(name);
    }
    found
}

/// Reports that a test cannot run without this program, bypassing the capture of passing tests' output:
/// `scripts/test` counts these lines.
pub fn skipped(what: &str) {
    let line = format!("SKIPPED: {what} is not installed (scripts/peers does that)\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The directory in which `scripts/peers` installs programs and `node_modules`.
pub fn peers() -> Option<PathBuf> {
    if let Some(chosen) = std::env::var_os("TIDEGATE_PEERS") {
        return Some(chosen.into());
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    Some(cache?.join("tidegate").join("peers"))
}

/// A third-party server (or our own binary), with a directory to itself. Ends when dropped.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    directory: Scratch,
}

impl Daemon {
    /// Starts `program` in a fresh directory; `prepare` writes its files there and returns its
    /// arguments.
    pub fn start(program: &Path, prepare: impl FnOnce(&Path, &mut Command)) -> Self {
        let directory = Scratch::new();
        let mut command = dying_with_us(program);
        command.current_dir(directory.path());
        prepare(directory.path(), &mut command);
        let process = Process::run(command, &directory.path().join("log"));
        Self { process, directory }
    }

    /// Waits until something listens on this port of the loopback interface.
    ///
    /// # Panics
    ///
    /// With the program's output, if it ends or takes too long.
    pub fn listening_on(mut self, port: u16) -> Self {
        let is_up = || TcpStream::connect_timeout(&local(port), Duration::from_millis(200)).is_ok();
        let mut ended = false;
        let up = happens(PATIENCE, || {
            ended = self.process.has_ended();
            ended || is_up()
        });
        assert!(up && !ended, "no process listens on {port}:\n{}", self.printed());
        self
    }

    /// Everything it has printed.
    pub fn printed(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether it has exited on its own.
    pub fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }

    /// Asks it to exit, with SIGTERM.
    pub fn terminate(&self) {
        self.process.signal(Signal::TERM);
    }

    /// Asks it to reload its configuration, with SIGHUP.
    pub fn hang_up(&self) {
        self.process.signal(Signal::HUP);
    }
}

/// Envoy takes a few seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
