//! The admin listener of real servers: two of them on one Redis, and what starts and what does not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_testkit::{Redis, wait_until};

/// A server with its two addresses and all that it has printed.
struct Server {
    child: Child,
    http: String,
    admin: String,
    log: Arc<Mutex<String>>,
}

impl Server {
    fn start(command: &mut Command) -> Self {
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
    fn send(&self, address: &str, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len();
        let common = "host: localhost\r\nconnection: close\r\ncontent-type: application/json";
        write!(stream, "{head}\r\n{common}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn admin(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let head = format!("{method} /admin/v1{path} HTTP/1.1\r\nauthorization: Bearer {TOKEN}");
        self.send(&self.admin, &head, body)
    }

    /// What is left to a user, without taking any.
    fn remaining(&self, user: &str) -> Option<u64> {
        let body = format!(r#"{{"policy": "api", "key": "{user}", "cost": 0}}"#);
        number(&self.send(&self.http, "POST /v1/check HTTP/1.1", &body).1, "remaining")
    }

    fn limit(&self, user: &str) -> Option<u64> {
        let body = format!(r#"{{"policy": "api", "key": "{user}", "cost": 0}}"#);
        number(&self.send(&self.http, "POST /v1/check HTTP/1.1", &body).1, "limit")
    }

    fn check(&self, user: &str) -> u16 {
        let body = format!(r#"{{"policy": "api", "key": "{user}"}}"#);
        self.send(&self.http, "POST /v1/check HTTP/1.1", &body).0
    }

    fn log(&self) -> String {
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
fn number(body: &str, name: &str) -> Option<u64> {
    let (_, rest) = body.split_once(&format!("\"{name}\":"))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const FILE: &str = "policies: [{ name: api, key: [user], limits: [2/hour] }]";
/// All instances are to obey within a second; a machine that is busy may take a little longer.
const SOON: Duration = Duration::from_secs(5);

fn scratch(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

/// With no doors but those that the test opens.
fn tidegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env("TIDEGATE_GRPC", "off").env("TIDEGATE_RESP", "off").env("TIDEGATE_SECRET", "s");
    command
}

fn serve(store: &str, config: &Path) -> Command {
    let mut command = tidegate();
    command
        .args(["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(["--store", store])
        .arg("--config")
        .arg(config)
        .env("TIDEGATE_ADMIN_TOKENS", format!("admin {TOKEN}"));
    command
}

#[test]
fn an_override_reaches_the_other_instance_survives_both_and_ends() {
    let (redis, config) = (Redis::start(), scratch("override.yaml", FILE));
    let start = || Server::start(&mut serve(&redis.url(), &config));
    let [one, two] = [start(), start()];
    assert_eq!((one.limit("42"), two.limit("42")), (Some(2), Some(2)));
    let body = |lasts: &str| {
        format!(
            r#"{{"policy": "api", "key": "user=42", "limits": ["9/hour"], "expires_in": "{lasts}"}}"#
        )
    };
    assert_eq!(one.admin("POST", "/overrides", &body("1h")).0, 200);
    assert_eq!(one.limit("42"), Some(9), "who was told obeys at once");
    wait_until("the override at the other instance", SOON, || two.limit("42") == Some(9));
    assert_eq!(two.limit("43"), Some(2));
    assert!(two.admin("GET", "/overrides", "").1.contains(r#""key":"user=42""#));

    drop((one, two));
    let [one, two] = [start(), start()];
    assert_eq!((one.limit("42"), two.limit("42")), (Some(9), Some(9)), "from the first request on");

    assert_eq!(two.admin("POST", "/overrides", &body("700ms")).0, 200);
    wait_until("the end of the override", SOON, || {
        one.limit("42") == Some(2) && two.limit("42") == Some(2)
    });
    assert_eq!(two.admin("GET", "/overrides", "").1, r#"{"overrides":[]}"#);
    std::fs::remove_file(config).unwrap();
}

#[test]
fn a_reset_and_a_mode_reach_the_other_instance_too() {
    let (redis, config) = (Redis::start(), scratch("reset.yaml", FILE));
    let [one, two] = [(); 2].map(|()| Server::start(&mut serve(&redis.url(), &config)));
    for status in [200, 200, 429, 429] {
        assert_eq!(two.check("alice"), status);
    }
    let alice = r#"{"policy": "api", "key": "alice"}"#;
    assert_eq!(one.admin("POST", "/reset", alice).0, 200);
    wait_until("the reset at the other instance", SOON, || two.check("alice") == 200);
    assert!(one.remaining("alice").is_some_and(|left| left < 2));

    assert_eq!(one.admin("POST", "/policies/api/mode", r#"{"mode": "shadow"}"#).0, 200);
    wait_until("the mode at the other instance", SOON, || {
        (0..4).all(|_| two.check("alice") == 200)
    });
    let log = one.log();
    assert!(log.contains("admin (admin): reset policy=api key=#"), "{log}");
    assert!(log.contains("admin (admin): mode set for 400d policy=api"), "{log}");
    assert!(!log.contains("alice"), "{log}");
    std::fs::remove_file(config).unwrap();
}

#[test]
fn an_override_stays_while_redis_is_away_and_ends_all_the_same() {
    let (redis, config) = (Redis::start(), scratch("away.yaml", FILE));
    let server = Server::start(&mut serve(&redis.url(), &config));
    let body = r#"{"policy": "api", "key": "user=42", "limits": ["9/hour"], "expires_in": "2s"}"#;
    assert_eq!(server.admin("POST", "/overrides", body).0, 200);
    redis.kill();
    let policy = || server.admin("GET", "/policies/api", "").1;
    assert_eq!(number(&policy(), "overrides"), Some(1));
    wait_until("the end of the override", SOON, || number(&policy(), "overrides") == Some(0));
    let (status, said) = server.admin("POST", "/overrides", body);
    assert_eq!(status, 503, "{said}");
    std::fs::remove_file(config).unwrap();
}

#[test]
fn no_secret_is_in_any_line_page_or_answer() {
    let redis = Redis::builder().password("hunter2secret").start();
    let text = format!("store: {}\n{FILE}", redis.url());
    let config = scratch("secret.yaml", &text);
    let server = Server::start(&mut serve(&redis.url(), &config));
    assert_eq!(server.check("alice"), 200);
    redis.kill();
    wait_until("word of the lost store", SOON, || {
        server.check("bob");
        server.log().contains("deciding without the store")
    });
    std::fs::write(&config, format!("{text}\nstroe: {}", redis.url())).unwrap();
    wait_until("a refused file", SOON, || server.log().contains("refused;"));
    let mut seen = server.log();
    for path in ["/status", "/config", "/policies", "/overrides", "/top"] {
        let (status, body) = server.admin("GET", path, "");
        assert_eq!(status, 200, "{body}");
        seen += &body;
    }
    seen += &server.admin("POST", "/reset", r#"{"policy": "api", "key": "x"}"#).1;
    for path in ["/metrics", "/readyz", "/nowhere"] {
        seen += &server.send(&server.http, &format!("GET {path} HTTP/1.1"), "").1;
    }
    assert!(seen.contains("redis://:***@"), "{seen}");
    for secret in ["hunter2secret", TOKEN] {
        assert!(!seen.contains(secret), "{seen}");
    }
    std::fs::remove_file(config).unwrap();
}

#[test]
fn an_address_that_everybody_can_reach_needs_a_token() {
    let start = |tokens: &str| {
        let mut command = tidegate();
        command.args(["serve", "--http", "127.0.0.1:0", "--admin", "0.0.0.0:0"]);
        command.env("TIDEGATE_ADMIN_TOKENS", tokens);
        command
    };
    let refused = start("").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.starts_with("tidegate: admin on 0.0.0.0:"), "{said}");
    assert!(
        said.contains("would be open to everybody who can reach it: expected a token"),
        "{said}"
    );

    let weak = start("admin hunter2").output().unwrap();
    let said = String::from_utf8_lossy(&weak.stderr).into_owned();
    let expected =
        "tidegate: TIDEGATE_ADMIN_TOKENS: line 1: a token of 7 bytes: expected 24 to 128\n";
    assert_eq!((weak.status.code(), &*said), (Some(2), expected));

    let server = Server::start(&mut start(&format!("read {TOKEN}")));
    let address = server.admin.replace("0.0.0.0", "127.0.0.1");
    let head = format!("GET /admin/v1/status HTTP/1.1\r\nauthorization: Bearer {TOKEN}");
    assert_eq!(server.send(&address, &head, "").0, 200);
    assert_eq!(server.send(&address, "GET /admin/v1/status HTTP/1.1", "").0, 401);
}

#[test]
fn tokens_in_a_file_are_exchanged_while_the_server_runs() {
    let [old, new] = ["a", "b"].map(|letter| letter.repeat(32));
    let file = scratch("tokens", &format!("read {old}\n"));
    let mut command = tidegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.args(["--log-format", "json"]).arg("--admin-tokens-file").arg(&file);
    let server = Server::start(&mut command);
    let status = |token: &str| {
        let head = format!("GET /admin/v1/status HTTP/1.1\r\nauthorization: Bearer {token}");
        server.send(&server.admin, &head, "").0
    };
    assert_eq!((status(&old), status(&new)), (200, 401));
    std::fs::write(&file, format!("read {old}\nread {new}\n")).unwrap();
    wait_until("both tokens", SOON, || (status(&old), status(&new)) == (200, 200));
    std::fs::write(&file, format!("read {new}\n")).unwrap();
    wait_until("the end of the old token", SOON, || (status(&old), status(&new)) == (401, 200));
    std::fs::write(&file, "read short\n").unwrap();
    wait_until("word of a bad file", SOON, || server.log().contains("those before stay in effect"));
    assert_eq!(status(&new), 200);
    let log = server.log();
    let is_json = |line: &str| line.starts_with('{') && line.contains(r#""event":"tokens""#);
    // What it says when it starts is for people.
    let said = log.lines().skip_while(|line| !line.starts_with('{'));
    assert!(said.clone().count() >= 2 && said.filter(|it| it.contains("tokens")).all(is_json));
    assert!(!log.contains(&old) && !log.contains(&new), "{log}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn top_shows_a_running_server() {
    let config = scratch("top.yaml", FILE);
    let server = Server::start(&mut serve("memory", &config));
    for _ in 0..5 {
        server.check("alice");
    }
    let top = |admin: &str, token: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["top", "--once", "--admin", &format!("http://{admin}")]);
        command.env("TIDEGATE_ADMIN_TOKEN", token).output().unwrap()
    };
    let output = top(&server.admin, TOKEN);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for part in ["tidegate 0.", "store: memory", " api ", "2/1h", "most denied, of 3", "busiest"] {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
    assert!(shown.lines().count() == 24 && shown.lines().all(|line| line.chars().count() <= 80));
    assert!(!shown.contains("alice"), "{shown}");
    let refused = top(&server.admin, "");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said.contains("expected a token for it in TIDEGATE_ADMIN_TOKEN"), "{said}");
    let elsewhere = top(&server.http, TOKEN);
    assert!(String::from_utf8_lossy(&elsewhere.stderr).contains("is this its admin address?"));
    std::fs::remove_file(config).unwrap();
}
