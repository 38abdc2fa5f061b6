//! `tidegate serve`, the real binary.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

struct Server {
    child: Child,
    greeting: Vec<String>,
}

impl Server {
    fn start(command: &mut Command) -> Self {
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

    fn address(&self) -> &str {
        self.greeting[0].strip_prefix("listening on http://").unwrap()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    fn check(&self) -> String {
        let body = r#"{"policy": "demo", "key": "alice"}"#;
        let head = "POST /v1/check HTTP/1.1\r\nconnection: close\r\n";
        let mut stream = self.connect();
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    fn signal(mut self, name: &str) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const DEMO: &str = "  demo: 10/1m, sliding-window: at most 19 in any 1m; by key, enforce";

fn tidegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_remove("TIDEGATE_HTTP").env_remove("TIDEGATE_CONFIG").env("TIDEGATE_ADMIN", "off");
    command
}

fn serve() -> Server {
    Server::start(tidegate().args(["serve", "--http", "127.0.0.1:0"]))
}

fn output(args: &[&str]) -> Output {
    tidegate().args(args).output().unwrap()
}

/// That it failed with one line on standard error, which is returned.
fn failure(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn it_answers_checks_and_stops_when_told() {
    for signal in ["TERM", "INT"] {
        let server = serve();
        let reply = server.check();
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
        assert!(reply.contains(r#""remaining":9"#), "{reply}");
        assert_eq!(server.signal(signal), Some(0));
    }
}

#[test]
fn it_says_what_an_operator_asks() {
    let server = serve();
    let url = server.greeting[0].strip_prefix("listening on ").unwrap();
    assert_eq!(server.greeting[1], "store: memory, at most 1000000 keys");
    assert_eq!(server.greeting[2..4], ["policies:", DEMO]);
    let curl = format!(r#"curl -i {url}/v1/check -d '{{"policy": "demo", "key": "alice"}}'"#);
    assert_eq!(server.greeting[4], format!("try: {curl}"));
}

#[test]
fn the_environment_is_heard_and_a_flag_is_heard_first() {
    let server = Server::start(tidegate().arg("serve").env("TIDEGATE_HTTP", "127.0.0.1:0"));
    assert!(server.check().starts_with("HTTP/1.1 200"));
    let mut both = tidegate();
    both.args(["serve", "--http", "127.0.0.1:0"]).env("TIDEGATE_HTTP", "nonsense");
    assert!(Server::start(&mut both).check().starts_with("HTTP/1.1 200"));
}

#[test]
fn an_address_that_is_none_is_refused() {
    for address in ["nonsense", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:http"] {
        let said = failure(&output(&["serve", "--http", address]));
        assert!(said.starts_with(&format!("tidegate: {address:?} is not an address")), "{said}");
        assert!(said.contains("expected host:port"), "{said}");
    }
}

#[test]
fn a_port_in_use_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = failure(&output(&["serve", "--http", &address]));
    assert!(said.contains(&format!("cannot listen on {address:?}")), "{said}");
    assert!(said.contains("in use"), "{said}");
}

#[test]
fn help_lists_the_commands_and_the_exit_codes() {
    let output = output(&["--help"]);
    assert!(output.status.success());
    let help = String::from_utf8(output.stdout).unwrap();
    for part in ["serve", "validate", "Exit codes:", "  0  ", "  1  ", "  2  "] {
        assert!(help.contains(part), "{help}");
    }
    assert_eq!(self::output(&["surf"]).status.code(), Some(2));
}

#[test]
fn it_survives_running_out_of_file_descriptors() {
    let mut shell = Command::new("sh");
    let script = r#"ulimit -n 24 && exec "$0" serve --http 127.0.0.1:0 --admin off"#;
    let server = Server::start(shell.args(["-c", script, env!("CARGO_BIN_EXE_tidegate")]));
    let crowd: Vec<TcpStream> = (0..50).map(|_| server.connect()).collect();
    // There are too few descriptors for the last of them, who waits.
    let mut last = crowd.last().unwrap();
    last.write_all(b"GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n").unwrap();
    last.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(last.read(&mut [0]).is_err());
    drop(crowd);
    assert!(server.check().starts_with("HTTP/1.1 200"));
    assert_eq!(server.signal("TERM"), Some(0));
}
