//! `tidegate serve` under load, short of descriptors, and stopped meanwhile.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::{Server, serve, tidegate};
use tidegate_testkit::{peer, wait_until};

const BODY: &str = r#"{"policy": "demo", "key": "alice"}"#;

/// A connection that is used again and again.
struct Client(BufReader<TcpStream>);

/// The outcome of a request.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Complete,
    /// A complete answer, which announces that it is the last.
    Last,
    /// No answer, or only a part of one.
    Failed,
}

impl Client {
    fn connect(server: &Server) -> Self {
        Self(BufReader::new(server.connect()))
    }

    fn ask(&mut self) -> Answer {
        let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\n";
        let request = format!("{head}content-length: {}\r\n\r\n{BODY}", BODY.len());
        let sent = self.0.get_mut().write_all(request.as_bytes());
        sent.ok().and_then(|()| self.answer()).unwrap_or(Answer::Failed)
    }

    fn answer(&mut self) -> Option<Answer> {
        let (mut is_last, mut length) = (false, 0);
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).ok().filter(|read| *read > 0)?;
            match line.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().ok()?,
                Some(("connection", value)) => is_last = value == "close",
                None if line == "\r\n" => break,
                _ => {}
            }
        }
        self.0.read_exact(&mut vec![0; length]).ok()?;
        Some(if is_last { Answer::Last } else { Answer::Complete })
    }
}

#[test]
fn no_request_fails_when_the_server_is_told_to_stop_under_load() {
    let server = serve(&["--workers", "2"]);
    let (answered, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let clients: Vec<_> = (0..16).map(|_| Client::connect(&server)).collect();
    let code = std::thread::scope(|scope| {
        for mut client in clients {
            let (answered, failed) = (&answered, &failed);
            scope.spawn(move || {
                loop {
                    match client.ask() {
                        Answer::Complete => answered.fetch_add(1, Ordering::Relaxed),
                        Answer::Last => return,
                        Answer::Failed => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            return;
                        }
                    };
                }
            });
        }
        while answered.load(Ordering::Relaxed) < 500 {
            std::thread::yield_now();
        }
        server.signal("TERM")
    });
    assert_eq!(failed.load(Ordering::Relaxed), 0, "of {answered:?} requests");
    assert_eq!(code, Some(0));
}

#[test]
fn a_drain_delay_gives_load_balancers_time() {
    let server = serve(&["--drain-delay", "1h"]);
    let mut open = Client::connect(&server);
    assert_eq!(open.ask(), Answer::Complete);
    server.send("TERM");
    while !server.get("/readyz").starts_with("HTTP/1.1 503") {}
    // Clients that are connected, or still connect, are served as before.
    assert_eq!(open.ask(), Answer::Complete);
    assert_eq!(Client::connect(&server).ask(), Answer::Complete);
    // A second signal does not wait.
    assert_eq!(server.signal("TERM"), Some(2));
}

#[test]
fn it_survives_running_out_of_file_descriptors() {
    let Some(prlimit) = peer("prlimit") else { return };
    let mut command = Command::new(prlimit);
    let binary = env!("CARGO_BIN_EXE_tidegate");
    command.args(["--nofile=32", binary, "serve", "--http", "127.0.0.1:0", "--workers", "2"]);
    let server = Server::start(
        command
            .env("TIDEGATE_RESP", "off")
            .env("TIDEGATE_GRPC", "off")
            .env("TIDEGATE_ADMIN", "off"),
    );
    let most = server.said("tidegate ").split(' ').rev().nth(3).unwrap().parse::<usize>().unwrap();
    assert!(most < 32, "{:?}", server.greeting);
    let crowd: Vec<TcpStream> = (0..100).map(|_| server.connect()).collect();
    // There are too few descriptors for the last one, which waits.
    let mut last = crowd.last().unwrap();
    last.write_all(b"GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n").unwrap();
    last.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(last.read(&mut [0]).is_err());
    drop(crowd);
    assert!(server.check().starts_with("HTTP/1.1 200"));
    assert_eq!(server.signal("TERM"), Some(0));
}

#[test]
fn listeners_share_the_file_descriptors() {
    let Some(prlimit) = peer("prlimit") else { return };
    // 48 are reserved for the process with one worker. A gateway needs two for each client.
    for (limit, flags, most) in [
        ("--nofile=64:348", &["--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0"][..], 100),
        ("--nofile=64:347", &["--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0"], 99),
        ("--nofile=64:348", &["--upstream", "http://127.0.0.1:9", "--gateway", "127.0.0.1:0"], 100),
        ("--nofile=64:2000", &["--grpc", "127.0.0.1:0"], 200),
        ("--nofile=64:348", &[], 200),
    ] {
        let mut command = Command::new(&prlimit);
        let binary = env!("CARGO_BIN_EXE_tidegate");
        command.args([limit, binary, "serve", "--http", "127.0.0.1:0", "--workers", "1"]);
        command.args(["--max-connections", "200"]);
        for name in ["TIDEGATE_RESP", "TIDEGATE_GRPC", "TIDEGATE_ADMIN"] {
            command.env(name, "off");
        }
        let server = Server::start(command.args(flags));
        let said = format!("at most {most} connections per listener");
        assert!(server.said("tidegate ").ends_with(&said), "{limit}: {:?}", server.greeting);
    }
}

#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let file = std::env::temp_dir().join(format!("tidegate-log-{}.yaml", std::process::id()));
    std::fs::write(&file, "policies: [{ name: demo, key: [key], limits: [10/m] }]").unwrap();
    let mut command = tidegate();
    command.args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(&file);
    let server = Server::start(command.stderr(Stdio::piped()));
    // Each of these logs a long line, and together the lines fill any pipe.
    for round in 0..3 {
        let bad = format!("{{ name: a, key: [], limits: [nam{round}] }}, ").repeat(2_000);
        std::fs::write(&file, format!("policies: [{bad}]")).unwrap();
        server.send("HUP");
        wait_until("a complaint", Duration::from_secs(30), || {
            server.get("/readyz").contains(&format!("nam{round}"))
        });
        assert!(server.check().starts_with("HTTP/1.1 "));
    }
    assert_eq!(server.signal("TERM"), Some(0));
    std::fs::remove_file(file).unwrap();
}

#[test]
fn garbage_on_every_port_harms_nobody() {
    let server = serve(&["--resp", "127.0.0.1:0"]);
    let noise: Vec<u8> =
        (0..1_u32 << 16).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for place in [server.address(), server.said("listening on redis://")] {
        for bytes in
            [&noise[..], &[0; 4_096], b"\x16\x03\x01\x02\x00\x01", b"*999999999\r\n", b"GET /"]
        {
            let mut stream = TcpStream::connect(place).unwrap();
            let _ = stream.write_all(bytes);
        }
    }
    assert!(server.check().starts_with("HTTP/1.1 200"));
    assert_eq!(server.signal("TERM"), Some(0));
}
