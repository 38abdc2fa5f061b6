//! A Redis server for tests.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use crate::process::{Process, local};
use crate::resp::{Connection, Reply};
use crate::scratch::Scratch;
use crate::setup::{Ports, RedisBuilder, SOCKET, read_log};

/// A `redis-server` of its own: on a free port of 127.0.0.1, without persistence.
///
/// Dropping it kills the process and removes its directory. The process also dies with ours,
/// however ours ends.
#[derive(Debug)]
pub struct Redis {
    setup: RedisBuilder,
    ports: Ports,
    // Before the directory: anything still running there would write to it.
    process: Mutex<Option<Process>>,
    dir: Scratch,
}

impl Redis {
    /// Starts one with the defaults.
    ///
    /// # Panics
    ///
    /// If there is no `redis-server`, or it does not start.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Starts one with options.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    pub(crate) fn new(setup: RedisBuilder, dir: Scratch, ports: Ports, process: Process) -> Self {
        Self { setup, ports, process: Mutex::new(Some(process)), dir }
    }

    /// Where clients find it: `redis://127.0.0.1:6379`, with the password if it has one.
    pub fn url(&self) -> String {
        self.url_of("redis", self.ports.main)
    }

    /// The same over TLS, if that was configured.
    pub fn tls_url(&self) -> Option<String> {
        self.ports.tls.map(|port| self.url_of("rediss", port))
    }

    fn url_of(&self, scheme: &str, port: u16) -> String {
        let password = self.setup.password.as_ref();
        let login = password.map_or_else(String::new, |password| format!(":{password}@"));
        format!("{scheme}://{login}127.0.0.1:{port}")
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        local(self.ports.main)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.ports.main
    }

    /// The port for TLS, if that was configured.
    pub fn tls_port(&self) -> Option<u16> {
        self.ports.tls
    }

    /// The port for other nodes of its cluster.
    pub(crate) fn bus_port(&self) -> u16 {
        self.ports.bus.expect("a cluster node")
    }

    /// Its socket, if one was configured.
    pub fn unix_socket(&self) -> Option<PathBuf> {
        self.setup.unix_socket.then(|| self.dir.file(SOCKET))
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.setup.password.as_deref()
    }

    /// Its process id.
    ///
    /// # Panics
    ///
    /// If it has been killed.
    pub fn pid(&self) -> u32 {
        self.with_process(Process::pid)
    }

    /// Kills it, and returns once it is gone. What it held is lost.
    pub fn kill(&self) {
        self.process.lock().unwrap().take();
    }

    /// Starts it again on the same port and with the same configuration, after killing it if it is
    /// still running.
    ///
    /// The configuration is the file of the first start, with whatever `CONFIG REWRITE` has made of
    /// it since: sentinels do that to servers they promote and demote.
    pub fn start_again(&self) {
        let mut process = self.process.lock().unwrap();
        process.take();
        *process = Some(self.setup.start_again(&self.dir, self.ports));
    }

    /// Suspends the process: connections stay open, and nothing answers.
    pub fn pause(&self) {
        self.with_process(Process::pause);
    }

    /// Resumes the process.
    pub fn resume(&self) {
        self.with_process(Process::resume);
    }

    fn with_process<T>(&self, f: impl FnOnce(&Process) -> T) -> T {
        f(self.process.lock().unwrap().as_ref().expect("this redis-server was killed"))
    }

    /// What it has printed so far, over all its starts.
    pub fn log(&self) -> String {
        read_log(&self.dir)
    }

    /// Sends a command over a new connection. An error reply is a reply too.
    ///
    /// # Panics
    ///
    /// If it does not answer within five seconds.
    #[track_caller]
    pub fn command(&self, words: &[impl AsRef<[u8]>]) -> Reply {
        match self.try_command(words) {
            Ok(reply) => reply,
            Err(error) => panic!("no answer from redis at {}: {error}", self.address()),
        }
    }

    /// Sends a command to a server that may not answer.
    pub fn try_command(&self, words: &[impl AsRef<[u8]>]) -> io::Result<Reply> {
        self.connect()?.call(words)
    }

    /// A connection to it, already authenticated.
    pub fn connect(&self) -> io::Result<Connection> {
        self.setup.connect(self.ports, ANSWER_TIME)
    }

    /// A section of `INFO`.
    #[track_caller]
    pub fn info(&self, section: &str) -> HashMap<String, String> {
        fields_of(&self.command(&["INFO", section]).or_panic().text())
    }

    /// The same for a server that may not answer; `None` if it does not.
    pub(crate) fn try_info(&self, section: &str) -> HashMap<String, String> {
        let reply = self.try_command(&["INFO", section]);
        reply.map(|reply| fields_of(&reply.text())).unwrap_or_default()
    }

    /// `master` or `slave`; `None` if it does not answer. It may not for a moment when a sentinel
    /// changes its role: sentinels then also close the connections of all clients, ours included.
    pub fn role(&self) -> Option<String> {
        self.try_info("replication").remove("role")
    }

    /// The processor time it has used, in microseconds.
    pub fn cpu_micros(&self) -> u64 {
        let info = self.info("cpu");
        micros(&info["used_cpu_user"]) + micros(&info["used_cpu_sys"])
    }

    /// The bytes it has allocated.
    pub fn used_memory(&self) -> u64 {
        self.info("memory")["used_memory"].parse().expect("a number of bytes")
    }
}

pub(crate) fn fields_of(info: &str) -> HashMap<String, String> {
    let fields = info.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())).collect()
}

/// Seconds with a fraction, read without going through a float.
fn micros(seconds: &str) -> u64 {
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let digits = format!("{whole}{fraction:0<6.6}");
    digits.parse().expect("a number of seconds")
}

const ANSWER_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::micros;

    #[test]
    fn seconds_become_microseconds() {
        assert_eq!(micros("0.012345"), 12_345);
        assert_eq!(micros("3.5"), 3_500_000);
        assert_eq!(micros("7"), 7_000_000);
        assert_eq!(micros("1.23456789"), 1_234_567);
    }
}
