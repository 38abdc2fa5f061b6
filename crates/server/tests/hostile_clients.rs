//! Hostile clients, beside an honest one.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod support;

use std::io::Write as _;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{Server, post};
use tidegate_server::ListenerConfig;

const ALICE: &str = r#"{"policy": "demo", "key": "alice"}"#;

/// How many of `wanted` sockets are available, with both ends of each in this process.
fn sockets(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let most = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| most as usize);
    let possible = wanted.min(most.saturating_sub(200) / 2);
    if possible < wanted {
        let line = format!("FEWER: {possible} of {wanted} sockets, by the limit of open files\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    possible
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_dripping_sockets_harm_nobody_and_are_cut_off() {
    let crowd = sockets(2_000);
    let config =
        ListenerConfig { header_timeout: Duration::from_secs(2), ..ListenerConfig::default() };
    let server = Server::with(config).await;
    let mut good = server.connect().await;
    let mut slow = Vec::with_capacity(crowd);
    for _ in 0..crowd {
        let mut client = server.connect().await;
        client.try_send("POST /v1/check HTTP/1.1\r\nx: ").await;
        slow.push(client);
    }
    for _ in 0..3 {
        for (number, client) in slow.iter_mut().enumerate() {
            client.try_send("y").await;
            if number % 100 == 0 {
                assert_ne!(good.check(ALICE).await.status, 400);
            }
        }
    }
    assert_eq!(server.check(r#"{"policy": "demo", "key": "bob"}"#).await.status, 200);
    for client in &mut slow {
        assert!(client.is_closed().await);
    }
    assert_eq!(good.check(ALICE).await.status, 429);
}

#[tokio::test]
async fn a_body_that_could_end_in_two_places_is_refused_and_nothing_follows() {
    let server = Server::start().await;
    for order in [
        "content-length: 4\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 4",
        "Transfer-Encoding: Chunked\r\na: b\r\nContent-Length: 0",
        "content-length: 44\r\ncontent-length: 44",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
    ] {
        for portion in [1, 7, 1_000] {
            let mut client = server.connect().await;
            let chunk = format!("{:x}\r\n{ALICE}\r\n0\r\n\r\n", ALICE.len());
            let smuggled = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
            let text = format!("POST /v1/check HTTP/1.1\r\n{order}\r\n\r\n{chunk}{smuggled}");
            for bytes in text.as_bytes().chunks(portion) {
                client.try_send_bytes(bytes).await;
            }
            assert_eq!(client.reply().await.status, 400, "{order}");
            assert!(client.is_closed().await, "what follows was taken for a request");
        }
    }
    // None of them was counted.
    assert_eq!(server.check(ALICE).await.json()["remaining"], 9);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_refused_and_counts_for_nobody() {
    let server = Server::start().await;
    let (length, chunk) = (ALICE.len(), format!("{:x}\r\n{ALICE}", ALICE.len()));
    let batch = format!(r#"{{"checks": [{ALICE}]}}"#);
    for (path, rest) in [
        // The part that was sent would be a valid body.
        ("/v1/check", format!("content-length: {}\r\n\r\n{ALICE}", length + 50)),
        ("/v1/check", format!("connection: close\r\ncontent-length: 999\r\n\r\n{ALICE}")),
        ("/v1/check", format!("transfer-encoding: chunked\r\n\r\n{chunk}\r\n")),
        ("/v1/check", format!("transfer-encoding: chunked\r\n\r\n{chunk}")),
        ("/v1/check", format!("transfer-encoding: chunked\r\n\r\n{chunk}XXGET / HTTP/1.1\r\n\r\n")),
        ("/v1/check", format!("transfer-encoding: chunked\r\n\r\n{chunk}\r\nx\r\n")),
        ("/v1/check/batch", format!("content-length: 999\r\n\r\n{batch}")),
        ("/v1/refund", format!("content-length: 999\r\n\r\n{ALICE}")),
    ] {
        let mut client = server.connect().await;
        client.send(&format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{rest}")).await;
        client.finish().await;
        let reply = client.reply().await;
        assert_eq!(reply.status, 400, "{path} {rest}");
        assert!(client.is_closed().await, "{path} {rest}");
    }
    assert_eq!(server.check(ALICE).await.json()["remaining"], 9);
}

#[tokio::test]
async fn requests_of_all_kinds_follow_each_other_on_a_connection() {
    let server = Server::start().await;
    let length = ALICE.len();
    let requests = [
        format!("POST /v1/check HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{ALICE}"),
        format!(
            "\r\nPOST /v1/check HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n\
             1;a=b\r\n{{\r\n{:x}\r\n{}\r\n0\r\nx: y\r\n\r\n",
            length - 1,
            &ALICE[1..]
        ),
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
            .to_owned(),
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n".to_owned(),
    ]
    .concat();
    for portion in [1, 5, 64, requests.len()] {
        let mut client = server.connect().await;
        for bytes in requests.as_bytes().chunks(portion) {
            client.send_bytes(bytes).await;
        }
        for _ in 0..4 {
            assert_eq!(client.reply().await.status, 200, "{portion}");
        }
    }
}

#[tokio::test]
async fn lengths_that_make_no_sense_are_refused() {
    let server = Server::start().await;
    for length in [
        "content-length: 4\r\ncontent-length: 5",
        "content-length: -1",
        "content-length: 4, 4",
        "content-length: 99999999999999999999",
        "transfer-encoding: gzip",
        "transfer-encoding: chunked, gzip",
        "transfer-encoding : chunked",
        "a: b\r\n c: folded",
    ] {
        let mut client = server.connect().await;
        client.send(&format!("POST /v1/check HTTP/1.1\r\n{length}\r\n\r\n{{}}")).await;
        assert_eq!(client.reply().await.status, 400, "{length}");
        assert!(client.is_closed().await, "{length}");
    }
}

#[tokio::test]
async fn garbage_is_refused_whatever_it_is() {
    let server = Server::start().await;
    let zeros = vec![0; 1 << 16];
    let mut noise: Vec<u8> =
        (0..1_u32 << 16).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    noise[0] = b'P';
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice();
    let redis = b"*1\r\n$4\r\nPING\r\n".as_slice();
    let half_a_preface = b"PRI * HTTP/2.0\r\n\r\nSMS".as_slice();
    for bytes in [&zeros[..], &noise, hello, redis, half_a_preface, b"\r\n\r\n\r\nX\r\n\r\n"] {
        let mut client = server.connect().await;
        client.try_send_bytes(bytes).await;
        client.try_send_bytes(b"\r\n\r\n").await;
        // With 400 or without an answer; but it must close.
        client.drain().await;
    }
    assert_eq!(server.check(ALICE).await.status, 200);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off() {
    let config =
        ListenerConfig { idle_timeout: Duration::from_secs(1), ..ListenerConfig::default() };
    let server = Server::with(config).await;
    let mut deaf = server.connect().await;
    // Far more answers than any buffer along the way can hold.
    let requests = post(ALICE).repeat(1_000);
    let mut is_open = true;
    for _ in 0..200 {
        is_open = is_open && deaf.try_send(&requests).await;
    }
    assert!(!is_open, "200,000 requests were taken without an answer being read");
    assert_ne!(server.check(ALICE).await.status, 400);
}
