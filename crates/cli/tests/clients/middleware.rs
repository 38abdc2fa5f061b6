//! The middleware of docs/clients.md: what its users see, and what happens without Tidegate.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tidegate_testkit::{Daemon, free_port};

use crate::{Tidegate, page, peers};

#[test]
fn fastapi() {
    let Some(python) = peers::python("fastapi").and(peers::python("uvicorn")) else { return };
    let files = ["rate_limit.py", "app.py"];
    let closed = page::snippet("app.py").replace("fail_open=True", "fail_open=False");
    let command = |command: &mut Command, port: u16| {
        command.args(["-m", "uvicorn", "--port", &port.to_string(), "--log-level", "warning"]);
        command.arg("app:app");
    };
    is_right(&python, &files, &closed, command);
}

#[test]
fn express() {
    let Some(node) = peers::node("ioredis").and(peers::node("express")) else { return };
    let files = ["rate-limit.js", "app.js"];
    let closed = page::snippet("app.js").replace("failOpen: true", "failOpen: false");
    let command = |command: &mut Command, port: u16| {
        command.env("PORT", port.to_string()).arg("app.js");
    };
    is_right(&node, &files, &closed, command);
}

/// Five pass, the sixth is denied with every field; and without Tidegate, requests pass or fail as the
/// middleware was told.
fn is_right(program: &Path, files: &[&str; 2], closed: &str, command: impl Fn(&mut Command, u16)) {
    let start = |tidegate: &Tidegate, app: &str| {
        let port = free_port();
        let daemon = Daemon::start(program, |directory, prepared| {
            tidegate.prepare(prepared).current_dir(directory);
            std::fs::write(directory.join(files[0]), page::snippet(files[0])).unwrap();
            std::fs::write(directory.join(files[1]), app).unwrap();
            command(prepared, port);
        });
        (daemon.listening_on(port), port)
    };
    let tidegate = Tidegate::start();
    let (open, port) = start(&tidegate, page::snippet(files[1]));
    for left in (0..5).rev() {
        let reply = get(port, "/login");
        assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}{}", open.printed());
        assert!(reply.contains("ratelimit-policy: \"login\";q=5;w=3600\r\n"), "{reply}");
        assert!(reply.contains(&format!("ratelimit: \"login\";r={left};t=3600\r\n")), "{reply}");
    }
    let denied = get(port, "/login");
    assert!(denied.starts_with("HTTP/1.1 429 "), "{denied}{}", open.printed());
    assert!(denied.contains("ratelimit: \"login\";r=0;t="), "{denied}");
    assert!(denied.contains("retry-after: 3"), "{denied}");
    assert!(denied.contains("content-type: application/problem+json"), "{denied}");
    let (_, body) = denied.split_once("\r\n\r\n").unwrap();
    assert!(body.contains("login"), "{denied}");
    // No policy is about it, so there are no fields.
    let other = get(port, "/nowhere");
    assert!(other.starts_with("HTTP/1.1 404 "), "{other}");
    assert!(!other.contains("ratelimit"), "{other}");

    let (closed, closed_port) = start(&tidegate, closed);
    assert!(get(closed_port, "/login").starts_with("HTTP/1.1 429 "), "{}", closed.printed());
    let without_tidegate = || {
        let reply = get(port, "/login");
        assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}{}", open.printed());
        assert!(!reply.contains("ratelimit"), "{reply}");
        let refused = get(closed_port, "/login");
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}{}", closed.printed());
        assert!(refused.contains("retry-after: 1\r\n"), "{refused}");
    };
    tidegate.server.freeze();
    without_tidegate();
    drop(tidegate);
    without_tidegate();
}

/// The whole answer; names of fields in lower case.
fn get(port: u16, path: &str) -> String {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let lower = |line: &str| match line.split_once(": ") {
        Some((name, value)) => format!("{}: {value}\r\n", name.to_ascii_lowercase()),
        None => format!("{line}\r\n"),
    };
    let head: String = head.split("\r\n").map(lower).collect();
    format!("{head}\r\n{body}")
}
