//! The examples under `examples/proxies`, each with the real proxy, called by curl.
//!
//! The files are the ones that are shipped; only the ports differ.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod refusals;
mod stand_in;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use support::Server;
use tidegate_testkit::{Daemon, free_port, peer, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// An example, and what is known about its proxy.
struct Example {
    name: &'static str,
    files: &'static [&'static str],
    arguments: &'static [&'static str],
    /// Whether allowed answers show how the limits stand.
    shows_allowed: bool,
    /// The status of a request while Tidegate is unavailable. None of them passes.
    without_us: u16,
    /// The status of a request that is too large for Tidegate.
    too_large: u16,
}

const NGINX: Example = Example {
    name: "nginx",
    files: &["nginx.conf"],
    arguments: &["-p", ".", "-c", "nginx.conf", "-g"],
    shows_allowed: true,
    without_us: 500,
    too_large: 500,
};
const CADDY: Example = Example {
    name: "caddy",
    files: &["Caddyfile"],
    arguments: &["run", "--config", "Caddyfile"],
    shows_allowed: true,
    without_us: 502,
    too_large: 431,
};
const TRAEFIK: Example = Example {
    name: "traefik",
    files: &["traefik.yaml", "dynamic.yaml"],
    arguments: &["--configFile=traefik.yaml"],
    shows_allowed: false,
    without_us: 500,
    too_large: 431,
};
const HAPROXY: Example = Example {
    name: "haproxy",
    files: &["haproxy.cfg", "tidegate.lua"],
    arguments: &["-f", "haproxy.cfg"],
    shows_allowed: true,
    without_us: 503,
    too_large: 400,
};
const ENVOY: Example = Example {
    name: "envoy",
    files: &["envoy.yaml"],
    arguments: &["-c", "envoy.yaml", "--disable-hot-restart", "--concurrency", "1"],
    shows_allowed: true,
    without_us: 503,
    too_large: 431,
};

#[tokio::test(flavor = "multi_thread")]
async fn nginx() {
    NGINX.run(&[&nginx_alone()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caddy() {
    CADDY.run(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn traefik() {
    TRAEFIK.run(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn haproxy() {
    HAPROXY.run(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy() {
    ENVOY.run(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_refusal_opens_nginx() {
    refusals::check(&NGINX, "nginx", &[&nginx_alone()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_refusal_opens_caddy() {
    refusals::check(&CADDY, "Caddy", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_refusal_opens_traefik() {
    refusals::check(&TRAEFIK, "Traefik", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_refusal_opens_haproxy() {
    refusals::check(&HAPROXY, "HAProxy", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_refusal_opens_envoy() {
    refusals::check(&ENVOY, "Envoy", &[]).await;
}

/// Without a master, whose workers would go on when it is killed.
fn nginx_alone() -> String {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    // In tests only root may be able to read the directory, so the workers run as root.
    let user = if is_root { " user root root;" } else { "" };
    format!("daemon off; master_process off;{user}")
}

impl Example {
    async fn run(&self, more: &[&str]) {
        let (Some(program), Some(curl)) = (peer(self.name), peer("curl")) else { return };
        let limits = std::fs::read_to_string(examples().join("limits.yaml")).unwrap();
        let mut server = Server::of(&limits).await;
        let ports = [free_port(), server.address.port(), application().await];
        let [web, ..] = ports;
        let proxy = self.start(&program, ports, more);
        let curl =
            Curl { program: curl, base: format!("http://127.0.0.1:{web}"), from: "127.0.0.2" };
        // A proxy may listen before it knows its routes.
        wait_until(self.name, PATIENCE, || curl.get("/up").status == 200);
        self.passes(&curl);
        self.is_limited(&curl);
        self.refuses(&curl);
        server.stop();
        server.stopped().await;
        let stranger = Curl { from: "127.0.0.4", ..curl };
        let answer = stranger.post("/login", &[]);
        assert_eq!(answer.status, self.without_us, "{answer:?}\n{}", proxy.printed());
    }

    /// The ports: where it listens, where Tidegate does, and where the application does.
    fn start(&self, program: &Path, ports: [u16; 3], more: &[&str]) -> Daemon {
        let proxy = Daemon::start(program, |directory, command| {
            self.write_files(directory, ports);
            command.args(self.arguments).args(more);
        });
        proxy.listening_on(ports[0])
    }

    fn write_files(&self, directory: &Path, ports: [u16; 3]) {
        for file in self.files {
            let text = std::fs::read_to_string(examples().join(self.name).join(file)).unwrap();
            let shipped = ["8000", "8080", "9000"].into_iter().zip(ports);
            let mut text =
                shipped.fold(text, |text, (port, ours)| text.replace(port, &ours.to_string()));
            // A busy machine may take longer to decide than the examples wait.
            for (patience, ours) in [
                ("timeout 100ms", "timeout 5s"),
                ("PATIENCE = 100", "PATIENCE = 5000"),
                ("timeout: 0.1s", "timeout: 5s"),
            ] {
                text = text.replace(patience, ours);
            }
            std::fs::write(directory.join(file), text).unwrap();
        }
    }

    fn passes(&self, curl: &Curl) {
        let answer = curl.get("/x?page=2");
        assert_eq!((answer.status, &answer.body[..]), (200, "the application"));
        let field = answer.field("ratelimit");
        assert_eq!(field.is_some(), self.shows_allowed, "{answer:?}");
        if let Some(field) = field {
            assert!(field.starts_with(r#""per-client";r="#), "{answer:?}");
            let policy = answer.field("ratelimit-policy");
            assert_eq!(policy, Some(r#""per-client";q=100;w=60"#));
        }
    }

    fn is_limited(&self, curl: &Curl) {
        for _ in 0..5 {
            assert_eq!(curl.post("/login", &[]).status, 200);
        }
        let answer = curl.post("/login", &[]);
        assert_eq!(answer.status, 429, "{answer:?}");
        assert_eq!(answer.field("retry-after"), Some("60"));
        assert_eq!(answer.field("ratelimit"), Some(r#""login";r=0;t=60"#));
        assert_eq!(answer.field("ratelimit-policy"), Some(r#""login";q=5;w=60"#));
        assert_eq!(answer.field("content-type"), Some("application/problem+json"));
        assert!(answer.body.contains("http-problem-types#quota-exceeded"), "{answer:?}");
        for spoof in [
            &["X-Forwarded-For: 6.6.6.6"][..],
            &["X-Forwarded-For: 6.6.6.6, 7.7.7.7", "X-Real-IP: 6.6.6.6", "Forwarded: for=6.6.6.6"],
            &["X-Forwarded-Uri: /harmless", "X-Forwarded-Method: GET"],
            &["X-Original-URI: /harmless", "X-Original-Method: GET"],
            &["X-Original-URL: https://x/harmless"],
        ] {
            let answer = curl.post("/login", spoof);
            assert_eq!(answer.status, 429, "{spoof:?}: {answer:?}");
        }
        assert_eq!(curl.post("/./login?x=%79", &[]).status, 429, "another spelling");
        assert_ne!(curl.post("//login", &[]).status, 200, "counted, or refused");
        assert_eq!(curl.get("/login").status, 200);
        // Another client behind the same proxy.
        assert_eq!(Curl { from: "127.0.0.3", ..curl.clone() }.post("/login", &[]).status, 200);
    }

    /// The proxy does not let a request pass that Tidegate refuses.
    fn refuses(&self, curl: &Curl) {
        let stranger = Curl { from: "127.0.0.4", ..curl.clone() };
        let long = "x".repeat(6_000);
        let fields = ["authorization", "cookie", "x-api-key"].map(|it| format!("{it}: {long}"));
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let answer = stranger.post("/login", &fields);
        assert_eq!(answer.status, self.too_large, "{answer:?}");
        assert_ne!(answer.body, "the application");
    }
}

const PATIENCE: Duration = Duration::from_secs(30);

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/proxies")
}

/// The application behind the proxies. Returns its port.
async fn application() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    port
}

async fn serve(mut stream: TcpStream) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte).await {
            Ok(1) => head.extend(byte),
            _ => return,
        }
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 15\r\nconnection: close\r\n\r\n";
    let _ = stream.write_all(format!("{head}the application").as_bytes()).await;
}

#[derive(Clone)]
struct Curl {
    program: PathBuf,
    base: String,
    /// All of 127.0.0.0/8 is this machine, so clients can have addresses of their own.
    from: &'static str,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Curl {
    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[])
    }

    fn post(&self, path: &str, fields: &[&str]) -> Answer {
        self.ask("POST", path, fields)
    }

    fn ask(&self, method: &str, path: &str, fields: &[&str]) -> Answer {
        let mut command = Command::new(&self.program);
        command.args(["-s", "-i", "--path-as-is", "--max-time", "40", "-X", method]);
        command.args(["--interface", self.from]);
        for field in fields {
            command.args(["-H", field]);
        }
        let output = command.arg(format!("{}{path}", self.base)).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Answer { status: status.unwrap_or(0), head: head.to_owned(), body: body.to_owned() }
    }
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}
