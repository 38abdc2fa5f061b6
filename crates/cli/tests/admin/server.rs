//! A real server with an admin listener.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A server with its two addresses and everything that it has printed.
pub(crate) struct Server {
    child: Child,
    pub(crate) http: String,
    pub(crate) admin: String,
    log: Arc<Mutex<String>>,
}

impl Server {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (mut stderr, said) = (child.stderr.take().unwrap(), Arc::clone(&log));
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(1..) = stderr.read(&mut bytes).inspect(|length| {
                said.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..*length]));
            }) {}
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let http = lines.next().unwrap().strip_prefix("listening on http://").unwrap().to_owned();
        let admin = lines.next().unwrap().strip_prefix("admin on http://").unwrap().to_owned();
        log.lock().unwrap().extend(lines.take_while(|line| !line.starts_with("try: ")));
        Self { child, http, admin, log }
    }

    /// The status and the body.
    pub(crate) fn send(&self, address: &str, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len();
        let common = "host: localhost\r\nconnection: close\r\ncontent-type: application/json";
        write!(stream, "{head}\r\n{common}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub(crate) fn admin(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let head = format!("{method} /admin/v1{path} HTTP/1.1\r\nauthorization: Bearer {TOKEN}");
        self.send(&self.admin, &head, body)
    }

    /// What a user has left, without taking any.
    pub(crate) fn remaining(&self, user: &str) -> Option<u64> {
        let body = format!(r#"{{"policy": "api", "key": "{user}", "cost": 0}}"#);
        number(&self.send(&self.http, "POST /v1/check HTTP/1.1", &body).1, "remaining")
    }

    pub(crate) fn limit(&self, user: &str) -> Option<u64> {
        let body = format!(r#"{{"policy": "api", "key": "{user}", "cost": 0}}"#);
        number(&self.send(&self.http, "POST /v1/check HTTP/1.1", &body).1, "limit")
    }

    pub(crate) fn check(&self, user: &str) -> u16 {
        let body = format!(r#"{{"policy": "api", "key": "{user}"}}"#);
        self.send(&self.http, "POST /v1/check HTTP/1.1", &body).0
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number in a body, by the name of its member.
pub(crate) fn number(body: &str, name: &str) -> Option<u64> {
    let (_, rest) = body.split_once(&format!("\"{name}\":"))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// A busy machine is not the same as an unavailable Redis.
pub(crate) const FILE: &str =
    "policies: [{ name: api, key: [user], limits: [2/hour], store_deadline: 5s }]";
/// All instances must apply a change within a second; a busy machine may take a little longer.
pub(crate) const SOON: Duration = Duration::from_secs(5);

pub(crate) fn scratch(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

/// Without other listeners than those that the test opens.
pub(crate) fn tidegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .env("TIDEGATE_GRPC", "off")
        .env("TIDEGATE_RESP", "off")
        .env("TIDEGATE_SECRET", "of this deployment");
    command
}

pub(crate) fn serve(store: &str, config: &Path) -> Command {
    let mut command = tidegate();
    command
        .args(["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(["--store", store])
        .arg("--config")
        .arg(config)
        .env("TIDEGATE_ADMIN_TOKENS", format!("admin {TOKEN} name=desk"));
    command
}
