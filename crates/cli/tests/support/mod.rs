//! Runs the real binary as a server.

#![allow(dead_code, reason = "no test file needs all of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A running `tidegate serve`. Killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// The startup message.
    pub(crate) greeting: Vec<String>,
}

impl Server {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut greeting = Vec::new();
        for line in lines.map(Result::unwrap) {
            let is_last = line.starts_with("try: ");
            greeting.push(line);
            if is_last {
                break;
            }
        }
        Self { child, greeting }
    }

    /// The rest of the line that begins with this.
    pub(crate) fn said(&self, beginning: &str) -> &str {
        let line = self.greeting.iter().find_map(|line| line.strip_prefix(beginning));
        line.unwrap_or_else(|| panic!("no {beginning:?} in {:#?}", self.greeting))
    }

    pub(crate) fn address(&self) -> &str {
        self.said("listening on http://")
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    pub(crate) fn check(&self) -> String {
        let body = r#"{"policy": "demo", "key": "alice"}"#;
        let head = "POST /v1/check HTTP/1.1\r\nconnection: close\r\n";
        let mut stream = self.connect();
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nconnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    /// The lines that it logs, as they come. They end when none has come for long.
    pub(crate) fn log(&mut self) -> impl Iterator<Item = String> + use<> {
        let (said, log) = mpsc::channel();
        let lines = self.stderr().lines().map_while(Result::ok);
        std::thread::spawn(move || lines.for_each(|line| drop(said.send(line))));
        std::iter::from_fn(move || log.recv_timeout(Duration::from_secs(60)).ok())
    }

    pub(crate) fn stderr(&mut self) -> impl BufRead + use<> {
        BufReader::new(self.child.stderr.take().unwrap())
    }

    pub(crate) fn send(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
    }

    /// Stops all its threads: it still takes connections, and answers nothing.
    pub(crate) fn freeze(&self) {
        self.send("STOP");
        let tasks = format!("/proc/{}/task", self.child.id());
        let is_stopped = |task: std::fs::DirEntry| {
            let state = std::fs::read_to_string(task.path().join("stat")).unwrap();
            state.rsplit_once(") ").unwrap().1.starts_with('T')
        };
        tidegate_testkit::wait_until("all threads to stop", Duration::from_secs(10), || {
            std::fs::read_dir(&tasks).unwrap().map(Result::unwrap).all(is_stopped)
        });
    }

    pub(crate) fn exit_code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub(crate) fn signal(self, name: &str) -> Option<i32> {
        self.send(name);
        self.exit_code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary, only with the settings that isolate tests.
pub(crate) fn tidegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    for (name, _) in std::env::vars().filter(|(name, _)| is_setting(name)) {
        command.env_remove(name);
    }
    command.env("TIDEGATE_RESP", "off").env("TIDEGATE_GRPC", "off").env("TIDEGATE_ADMIN", "off");
    command
}

fn is_setting(name: &str) -> bool {
    ["TIDEGATE_", "OTEL_"].iter().any(|it| name.starts_with(it))
}

pub(crate) fn serve(args: &[&str]) -> Server {
    Server::start(tidegate().args(["serve", "--http", "127.0.0.1:0"]).args(args))
}

pub(crate) fn output(args: &[&str]) -> Output {
    output_of(tidegate().args(args))
}

/// What a command that ends by itself prints. If it serves instead, it is stopped, and the test fails.
pub(crate) fn output_of(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    let id = child.id().to_string();
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match ended.recv_timeout(Duration::from_secs(60)) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            let _ = Command::new("kill").args(["-9", &id]).status();
            panic!("{command:?} does not end")
        }
    }
}

/// Asserts that it failed with one line on standard error, which is returned.
pub(crate) fn failure(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}
