//! `tidegate serve --upstream` in front of a service.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tidegate_testkit::{Daemon, free_port, wait_until};

const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");

/// A service that answers every connection with one word.
fn service() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    answer(listener);
    port
}

fn answer(listener: TcpListener) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head);
            let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello";
            let _ = stream.write_all(answer.as_bytes());
        }
    });
}

fn get(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

/// Without other listeners than those that the test opens.
const SERVE: [&str; 7] = ["serve", "--grpc", "off", "--resp", "off", "--admin", "off"];

fn serve(arguments: &[&str]) -> (Daemon, u16) {
    let port = free_port();
    let daemon = Daemon::start(Path::new(TIDEGATE), |_, command| {
        command.args(SERVE).args(["--http", "off"]).args(arguments);
        command.args(["--gateway", &format!("127.0.0.1:{port}")]);
    });
    (daemon.listening_on(port), port)
}

#[test]
fn an_upstream_is_enough_to_start_the_gateway() {
    let upstream = format!("http://127.0.0.1:{}", service());
    let (daemon, port) = serve(&["--upstream", &upstream]);
    let said = format!("gateway on http://127.0.0.1:{port}");
    wait_until(&said, Duration::from_secs(10), || daemon.printed().contains(&said));
    for said in
        [format!("forwarding to {upstream}"), format!("try: curl -i http://127.0.0.1:{port}/")]
    {
        wait_until(&said, Duration::from_secs(10), || daemon.printed().contains(&said));
    }
    for left in (0..100).rev() {
        let reply = get(port);
        assert!(reply.starts_with("HTTP/1.1 200") && reply.ends_with("hello"), "{reply}");
        assert!(reply.contains(&format!("ratelimit: \"demo\";r={left};")), "{reply}");
    }
    assert!(get(port).starts_with("HTTP/1.1 429"));
}

#[test]
fn the_gateway_may_be_the_only_listener() {
    let upstream = format!("http://127.0.0.1:{}", service());
    let (daemon, port) = serve(&["--upstream", &upstream]);
    assert!(get(port).starts_with("HTTP/1.1 200"));
    wait_until("the greeting", Duration::from_secs(10), || daemon.printed().contains("gateway on"));
    assert!(!daemon.printed().contains("listening on"), "{}", daemon.printed());
}

#[test]
fn a_service_that_is_down_is_said_once_with_the_reason() {
    let upstream = free_port();
    let (daemon, port) = serve(&["--upstream", &format!("http://127.0.0.1:{upstream}")]);
    for _ in 0..9 {
        assert!(get(port).starts_with("HTTP/1.1 502"));
    }
    let said = format!("service default: http://127.0.0.1:{upstream} fails: cannot connect: ");
    let count = |said: &str| daemon.printed().matches(said).count();
    wait_until(&said, Duration::from_secs(10), || count(&said) == 1);
    let listener = TcpListener::bind(("127.0.0.1", upstream)).unwrap();
    answer(listener);
    assert!(get(port).starts_with("HTTP/1.1 200"));
    let said = format!("service default: http://127.0.0.1:{upstream} answers again");
    wait_until(&said, Duration::from_secs(10), || count(&said) == 1);
}

#[test]
fn a_file_may_hold_the_policies_alone() {
    let directory = std::env::temp_dir().join(format!("tidegate-cli-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("limits.yaml");
    let policies = "policies: [{ name: p, key: [ip], limits: [1/hour] }]\n";
    std::fs::write(&file, policies).unwrap();
    let upstream = format!("http://127.0.0.1:{}", service());
    let config = file.to_str().unwrap();
    let (_daemon, port) = serve(&["--config", config, "--upstream", &upstream]);
    assert!(get(port).starts_with("HTTP/1.1 200"));
    assert!(get(port).starts_with("HTTP/1.1 429"));

    let both = format!("gateway: {{ upstreams: {{ a: '{upstream}' }} }}\n{policies}");
    std::fs::write(&file, both).unwrap();
    let refused = |arguments: &[&str]| {
        let mut command = Command::new(TIDEGATE);
        command.args(SERVE).args(["--http", "127.0.0.1:0", "--gateway", "127.0.0.1:0"]);
        command.args(arguments);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&["--config", config, "--upstream", &upstream]);
    assert!(said.contains("--upstream and a gateway in the configuration"), "{said}");
    let said = refused(&["--upstream", "localhost:3000"]);
    assert!(said.contains("--upstream \"localhost:3000\": no scheme; expected http://"), "{said}");
    let _ = std::fs::remove_dir_all(directory);
}
