//! A log or an output that blocks must not block the server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use support::tidegate;
use tidegate_testkit::{Scratch, free_port, wait_until};

/// A gateway to a service that always answers.
struct Front {
    child: Child,
    port: u16,
    admin: u16,
    config: PathBuf,
    service: u16,
}

impl Front {
    /// With this access log, and `stdout` as its standard output.
    fn start(scratch: &Scratch, log: &str, stdout: Stdio) -> Self {
        let (port, admin, service) = (free_port(), free_port(), service());
        let config = scratch.write("limits.yaml", &config(service, log, 1_000_000));
        let mut command = tidegate();
        command.args(["serve", "--http", "off", "--workers", "2", "--config"]).arg(&config);
        command.args(["--gateway", &format!("127.0.0.1:{port}")]);
        command.args(["--admin", &format!("127.0.0.1:{admin}")]);
        let child = command.stdout(stdout).stderr(Stdio::null()).spawn().unwrap();
        let front = Self { child, port, admin, config, service };
        let listens = |port: u16| TcpStream::connect(("127.0.0.1", port)).is_ok();
        wait_until("its listeners", PATIENCE, || listens(port) && listens(admin));
        front
    }

    /// Fills any pipe: a thousand lines of more than 1 KiB, on many connections, so that every
    /// worker has some of them.
    fn ask_a_lot(&self) {
        let path = "x".repeat(1_000);
        for _ in 0..50 {
            let request = format!("GET /{path} HTTP/1.1\r\nhost: a\r\n\r\n");
            let mut stream = connect(self.port);
            for _ in 0..20 {
                stream.write_all(request.as_bytes()).unwrap();
                let mut answer = [0; 15];
                stream.read_exact(&mut answer).unwrap();
                assert_eq!(&answer, b"HTTP/1.1 200 OK");
                let (mut rest, mut count) = ([0; 4_096], 0);
                while !rest[..count].ends_with(b"hello") {
                    count = stream.read(&mut rest).unwrap();
                    assert!(count > 0, "the connection has ended");
                }
            }
        }
    }

    fn reload(&self, log: &str) {
        let text = config(self.service, log, 1_000_001);
        std::fs::write(&self.config, text).unwrap();
        let done = "tidegate_config_reloads_total{result=\"done\"} 1\n";
        wait_until("a reload", PATIENCE, || metrics(self.admin).contains(done));
    }

    /// Stops it as an operator does.
    fn stops(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
        wait_until("its end", PATIENCE, || self.child.try_wait().unwrap().is_some());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(service: u16, log: &str, limit: u32) -> String {
    format!(
        "gateway:\n  upstreams: {{ up: 'http://127.0.0.1:{service}' }}\n  access_log: {log}\n\
         policies: [{{ name: p, key: [ip], limits: [{limit}/second] }}]\n"
    )
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn metrics(admin: u16) -> String {
    let mut stream = connect(admin);
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

/// Answers every connection with one word, until it is closed.
fn service() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut head = [0; 8_192];
                while stream.read(&mut head).is_ok_and(|count| count > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
                }
            });
        }
    });
    port
}

fn pipe(scratch: &Scratch) -> (PathBuf, String) {
    let path = scratch.file("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let log = format!("{{ file: {} }}", path.display());
    (path, log)
}

/// A reader that has the pipe open but does not read.
fn deaf(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

/// Much longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_log_that_blocks_does_not_block_workers_reloads_or_shutdown() {
    let scratch = Scratch::new();
    let (path, log) = pipe(&scratch);
    let _reader = deaf(&path);
    let front = Front::start(&scratch, &log, Stdio::null());
    front.ask_a_lot();
    let other = scratch.file("other.log");
    front.reload(&format!("{{ file: {} }}", other.display()));
    front.ask_a_lot();
    let lines = || std::fs::read_to_string(&other).unwrap_or_default().lines().count();
    wait_until("the lines since then", PATIENCE, || lines() >= 900);
    front.stops();
}

#[test]
fn a_log_to_a_pipe_without_a_reader_blocks_nothing() {
    let scratch = Scratch::new();
    let (_path, log) = pipe(&scratch);
    let front = Front::start(&scratch, &log, Stdio::null());
    front.ask_a_lot();
    front.stops();
    let front = Front::start(&scratch, "{ file: /dev/null }", Stdio::null());
    front.reload(&log);
    front.ask_a_lot();
    front.stops();
}

#[test]
fn a_full_standard_output_blocks_nothing() {
    let (_reader, mut writer) = std::io::pipe().unwrap();
    // As much as a pipe takes.
    writer.write_all(&[b'x'; 64 << 10]).unwrap();
    let scratch = Scratch::new();
    let front = Front::start(&scratch, "{ file: '-' }", writer.into());
    front.ask_a_lot();
    front.stops();
}

#[test]
fn a_full_disk_loses_lines_which_are_counted() {
    let scratch = Scratch::new();
    let front = Front::start(&scratch, "{ file: /dev/full }", Stdio::null());
    front.ask_a_lot();
    let lost = "\ntidegate_access_log_dropped_total 1000\n";
    wait_until("all of them", PATIENCE, || metrics(front.admin).contains(lost));
    // A reload with another log keeps the count.
    front.reload("{ file: /dev/null }");
    front.ask_a_lot();
    assert!(metrics(front.admin).contains(lost));
    front.stops();
}
