//! A server process that does not outlive its test.

use std::fs::{self, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::{PATIENCE, happens};

/// A running server. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts `redis-server` with these arguments. Whatever it prints goes to `log`.
    pub(crate) fn spawn(args: &[String], log: &Path) -> Self {
        let server = on_path("redis-server");
        assert!(server.is_some(), "redis-server not found: apt-get install redis-server");
        let mut command = dying_with_us(Path::new("redis-server"));
        command.args(args);
        Self::run(command, log)
    }

    /// Runs a command created by [`dying_with_us`].
    pub(crate) fn run(mut command: Command, log: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(log).expect("a log file");
        command.stdin(Stdio::null());
        command.stdout(file.try_clone().expect("a second handle")).stderr(file);
        Self { child: spawn_for_life(command).expect("a server starts") }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the state of our own child").is_some()
    }

    /// Suspends the process. Returns once it has stopped, which the signal alone does not ensure.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.pid());
        let stands = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") T "));
        assert!(happens(PATIENCE, stands), "the server still runs after SIGSTOP");
    }

    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends a signal. It is not an error if the process has already ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a process id");
        let _ = kill_process(pid, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The child has not been waited for yet, so no other process can have its id.
        if !self.has_ended() {
            self.resume();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A program that the system kills when our process ends, if the system supports that.
pub(crate) fn dying_with_us(program: &Path) -> Command {
    static DIES_WITH_PARENT: OnceLock<bool> = OnceLock::new();
    if *DIES_WITH_PARENT.get_or_init(setpriv_works) {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program);
        command
    } else {
        Command::new(program)
    }
}

/// Not every `setpriv` has the option: busybox's does not.
fn setpriv_works() -> bool {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "true"]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// Spawns from a thread that lives as long as the process.
///
/// Linux sends the parent-death signal when the spawning *thread* ends. A test's thread ends with
/// the test, and would take down a server that other tests share.
fn spawn_for_life(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in inbox {
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    let (answer, child) = mpsc::channel();
    spawner.send((command, answer)).expect("the spawner lives");
    child.recv().expect("the spawner answers")
}

/// A port on which no process listens.
///
/// It lies below those that the system gives to outgoing connections. Otherwise a client that keeps
/// reconnecting to a killed server would eventually be given the server's own port, and connect to
/// itself.
pub fn free_port() -> u16 {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    static NEXT: OnceLock<AtomicU32> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU32::new(random()));
    let mut ports = (0..COUNT).map(|_| FIRST + next.fetch_add(1, Ordering::Relaxed) % COUNT);
    let port = ports.find_map(|port| u16::try_from(port).ok().filter(|port| is_free(*port)));
    port.expect("a free port")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(local(port)).is_ok()
}

/// Test processes start at different places, so that they rarely choose the same port.
fn random() -> u32 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    (RandomState::new().build_hasher().finish() >> 32) as u32
}

pub(crate) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
