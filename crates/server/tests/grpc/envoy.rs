//! Envoy itself, with the configuration of `examples/envoy`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use tidegate_server::ListenerConfig;
use tidegate_testkit::{Daemon, free_port, peer};

use super::support::Server;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/envoy");

/// Envoy in front of an application, with a limiter at `limiter`.
pub(super) fn start(
    envoy: &Path,
    limiter: u16,
    change: impl Fn(String) -> String,
) -> (Daemon, u16) {
    let (port, app) = (free_port(), free_port());
    let text = std::fs::read_to_string(format!("{EXAMPLE}/envoy.yaml")).unwrap();
    let text = change(text)
        .replace("port_value: 10000", &format!("port_value: {port}"))
        .replace("port_value: 10001", &format!("port_value: {app}"))
        .replace("port_value: 8081", &format!("port_value: {limiter}"))
        // Generous, since a busy machine is not what is tested.
        .replace("timeout: 0.02s", "timeout: 5s");
    let daemon = Daemon::start(envoy, |directory, command| {
        std::fs::write(directory.join("envoy.yaml"), text).unwrap();
        command.args(["-c", "envoy.yaml", "--concurrency", "1", "--log-level", "warning"]);
        command.args(["--use-dynamic-base-id"]);
    });
    (daemon.listening_on(port), port)
}

/// The status and the head of an answer.
pub(super) fn get(port: u16, user: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nhost: x\r\nx-user: {user}\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let status = reply.split(' ').nth(1).unwrap().parse().unwrap();
    (status, reply.split("\r\n\r\n").next().unwrap().to_ascii_lowercase())
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_lets_through_and_refuses_and_shows_our_fields() {
    let Some(envoy) = peer("envoy") else { return };
    let limits = std::fs::read_to_string(format!("{EXAMPLE}/limits.yaml")).unwrap();
    let server = Server::with(&limits, ListenerConfig::default()).await;
    let limiter = server.address.port();
    let asked = tokio::task::spawn_blocking(move || {
        let (_envoy, port) = start(&envoy, limiter, |text| text);
        for left in [2, 1, 0] {
            let (status, head) = get(port, "alice");
            assert_eq!(status, 200, "{head}");
            assert!(head.contains(&format!("ratelimit: \"per-user\";r={left};")), "{head}");
            assert!(head.contains("ratelimit-policy: \"per-user\";q=3;w=60"), "{head}");
        }
        let (status, head) = get(port, "alice");
        assert_eq!(status, 429, "{head}");
        assert!(head.contains("retry-after: 60"), "{head}");
        assert!(head.contains("ratelimit: \"per-user\";r=0;t=60"), "{head}");
        // Envoy's own headers come from the statuses.
        assert!(head.contains("x-ratelimit-limit: 3, 3;w=60;name=\"per-user\""), "{head}");
        assert!(head.contains("x-ratelimit-reset: 60"), "{head}");
        assert_eq!(get(port, "bob").0, 200);
        // A header that is not UTF-8 does not bypass the limit.
        let strange = || get_bytes(port, b"\xff\xfe");
        let statuses: Vec<_> = (0..4).map(|_| strange()).collect();
        assert_eq!(statuses, [200, 200, 200, 429]);
    });
    asked.await.unwrap();
}

fn get_bytes(port: u16, user: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = [b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-user: ", user, b"\r\n\r\n"];
    stream.write_all(&head.concat()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    String::from_utf8_lossy(&reply).split(' ').nth(1).unwrap().parse().unwrap()
}

/// The example, but a request passes if the limiter's answer is an error.
fn opened(text: &str) -> String {
    assert!(text.contains("failure_mode_deny: true"));
    text.replace("failure_mode_deny: true", "failure_mode_deny: false")
}

#[test]
fn without_the_limiter_envoy_does_what_failure_mode_deny_says() {
    let Some(envoy) = peer("envoy") else { return };
    let (_closed, port) = start(&envoy, free_port(), |text| text);
    assert_eq!(get(port, "alice").0, 503);
    let (_open, port) = start(&envoy, free_port(), |text| opened(&text));
    assert_eq!(get(port, "alice").0, 200);
}

/// The statuses of requests with a target and further fields, one after the other.
fn statuses(port: u16, target: &str, fields: &str, times: usize) -> Vec<u16> {
    let head = format!("GET {target} HTTP/1.1\r\nhost: x\r\n{fields}connection: close\r\n\r\n");
    let one = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        String::from_utf8_lossy(&reply).split(' ').nth(1).unwrap().parse().unwrap()
    };
    (0..times).map(|_| one()).collect()
}

/// The address is limited to 5 a minute, and so is each value of a field.
const FIVE: &str = "
policies:
  - { name: per-user, match: { domain: edge }, key: [user], limits: [1000/minute] }
  - name: per-address
    match: { domain: edge }
    key: [{ attribute: remote_address, as: ip }]
    limits: [5/minute]
    algorithm: fixed-window
";

#[tokio::test(flavor = "multi_thread")]
async fn attack_01_no_field_of_a_client_opens_envoy() {
    let Some(envoy) = peer("envoy") else { return };
    let server = Server::with(FIVE, ListenerConfig::default()).await;
    let limiter = server.address.port();
    let asked = tokio::task::spawn_blocking(move || {
        let (_envoy, port) = start(&envoy, limiter, |text| {
            let user = "- request_headers: { header_name: x-user, descriptor_key: user }";
            assert!(text.contains(user));
            let named = |field: &str| {
                user.replace("x-user", field).replace("descriptor_key: user", "descriptor_key: f")
            };
            let more = |field: &str| {
                format!("{}- actions:\n{}{}\n", " ".repeat(30), " ".repeat(34), named(field))
            };
            // In several descriptors, as where a path is part of many limits.
            let many = "- actions:\n                                  ";
            let wide = format!("{}- actions:\n{}", " ".repeat(30), " ".repeat(34));
            let wide: String = (0..18).map(|_| format!("{wide}{}\n", named("x-wide"))).collect();
            let all = [more(":path"), more("cookie"), more("user-agent"), wide].concat();
            let first = format!("{}{many}", " ".repeat(30));
            opened(&text).replacen(&first, &format!("{all}{first}"), 1)
        });
        assert_eq!(statuses(port, "/", "", 7), [200, 200, 200, 200, 200, 429, 429]);
        for length in [4_095, 4_096, 4_097, 20_000, 58 << 10] {
            let long = "x".repeat(length);
            for (target, fields) in [
                ("/", format!("x-user: {long}\r\n")),
                ("/", format!("cookie: sid={long}\r\n")),
                ("/", format!("user-agent: {long}\r\n")),
                ("/", format!("x-wide: {long}\r\n")),
                (&*format!("/?q={long}"), String::new()),
            ] {
                assert_eq!(statuses(port, target, &fields, 2), [429, 429], "{length}");
            }
        }
    });
    asked.await.unwrap();
    // The field that is part of 18 descriptors is more than a message may be.
    assert_eq!(server.refused("too_large").await, 2);
}
