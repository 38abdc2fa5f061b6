//! Checks that the fast path answers without hyper get the same answers as from hyper.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::remote_store::Elsewhere;
use support::{Client, Server, post};
use tidegate::ManualClock;
use tidegate::config::PolicySource;
use tidegate_server::{App, ListenerConfig};
use tokio::sync::Semaphore;

const ALICE: &str = r#"{"policy": "demo", "key": "alice"}"#;
const POLICIES: &str = r#"
policies:
  - { name: api, key: [user], limits: [2/minute, 100/hour] }
  - { name: 'a "quoted" é', key: [user], limits: [{ quota: 5, per: calendar-month, algorithm: fixed-window }] }
  - { name: watched, key: [user], limits: [1/hour], mode: shadow }
  - { name: friends, key: [user], limits: [1/day], overrides: { "user=bob": unlimited } }
"#;
const BODIES: [&str; 16] = [
    r#"{"policy": "api", "key": "alice"}"#,
    r#"{"policy": "api", "key": "alice"}"#,
    r#"{"policy": "api", "key": "alice"}"#,
    r#"{"policy": "api", "key": "alice", "cost": 0}"#,
    r#"{"policy": "api", "key": "carol", "cost": 3}"#,
    r#"{"policy": "a \"quoted\" é", "key": "alice", "cost": 5}"#,
    r#"{"policy": "a \"quoted\" é", "key": "alice"}"#,
    r#"{"policy": "watched", "key": "alice"}"#,
    r#"{"policy": "watched", "key": "alice"}"#,
    r#"{"policy": "friends", "key": "bob"}"#,
    r#"{"attributes": {"user": "dave"}}"#,
    r#"{"attributes": {"other": "dave"}}"#,
    r#"{"policy": "nobody", "key": "alice"}"#,
    r#"{"policy": "api", "kye": "alice"}"#,
    "{",
    "",
];

/// Once hyper reads a connection, it reads it to the end.
async fn by_hyper(server: &Server) -> Client {
    let mut client = server.connect().await;
    assert_eq!(client.get("/healthz").await.status, 200);
    client
}

#[tokio::test]
async fn an_answer_is_the_same_whoever_gives_it() {
    for settings in ["", "http: { legacy_headers: seconds }"] {
        let policies = format!("{POLICIES}{settings}");
        let (one, other) = (Server::of(&policies).await, Server::of(&policies).await);
        let (mut express, mut hyper) = (one.connect().await, by_hyper(&other).await);
        for body in BODIES {
            let request = post(body);
            express.send(&request).await;
            hyper.send(&request).await;
            let (by_express, by_hyper) = (express.dateless().await, hyper.dateless().await);
            assert_eq!(by_express, by_hyper, "{body}");
        }
    }
}

#[tokio::test]
async fn a_check_is_answered_wherever_it_is_cut() {
    let server = Server::of("policies: [{ name: demo, key: [key], limits: [100000/hour] }]").await;
    let text = post(ALICE).repeat(2);
    let cuts = (1..text.len()).step_by(7);
    let all = cuts.map(|cut| {
        let (text, server) = (&text, &server);
        async move {
            let mut client = server.connect().await;
            client.send(&text[..cut]).await;
            // Sometimes longer than the fast path waits for the rest.
            if cut % 2 == 0 {
                tokio::time::sleep(Duration::from_millis(60)).await;
            }
            client.send(&text[cut..]).await;
            for _ in 0..2 {
                assert_eq!(client.reply().await.status, 200, "{cut}");
            }
            // The fast path or hyper, whichever reads the connection by now, continues.
            assert_eq!(client.check(ALICE).await.status, 200, "{cut}");
        }
    });
    futures_util::future::join_all(all).await;
}

#[tokio::test]
async fn checks_and_all_else_are_answered_in_order() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let many = post(ALICE).repeat(200);
    client.send(&format!("{many}GET /healthz HTTP/1.1\r\n\r\n{many}")).await;
    for place in 0..401 {
        let reply = client.reply().await;
        match place {
            0..10 | 200 => assert_eq!(reply.status, 200, "{place}"),
            _ => assert_eq!(reply.status, 429, "{place}"),
        }
        assert_eq!(reply.body == "ok\n", place == 200, "{place}");
    }
}

#[tokio::test]
async fn what_is_larger_than_we_read_at_once_is_answered() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let spaces = " ".repeat(20_000);
    assert_eq!(client.check(&format!("{spaces}{ALICE}")).await.status, 200);
    assert_eq!(client.check(ALICE).await.status, 200);
    let large = " ".repeat(70_000);
    assert_eq!(client.check(&format!("{large}{ALICE}")).await.status, 413);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_not_kept() {
    let idle_timeout = Duration::from_millis(300);
    let server = Server::with(ListenerConfig { idle_timeout, ..ListenerConfig::default() }).await;
    let mut client = server.connect().await;
    let text = post(ALICE).repeat(10_000);
    let mut said = 0;
    // It continues until the client is gone, and answers cannot be sent.
    while client.try_send(&text).await {
        said += 1;
        assert!(said < 1_000, "{said}");
    }
}

#[tokio::test]
async fn a_stopping_server_answers_what_has_come_and_says_that_it_is_the_last() {
    let mut server = Server::start().await;
    let mut client = server.connect().await;
    assert_eq!(client.check(ALICE).await.status, 200);
    server.stop();
    // Until the connection has been notified.
    let last = loop {
        let reply = client.check(ALICE).await;
        if reply.header("connection").is_some() {
            break reply;
        }
    };
    assert_eq!(last.header("connection"), Some("close"));
    assert!(client.is_closed().await);
    server.stopped().await;
}

#[tokio::test]
async fn a_slowly_sent_head_has_the_same_deadline() {
    let header_timeout = Duration::from_secs(1);
    let server = Server::with(ListenerConfig { header_timeout, ..ListenerConfig::default() }).await;
    let mut client = server.connect().await;
    assert_eq!(client.check(ALICE).await.status, 200);
    client.send("POST /v1/check HTTP/1.1\r\nx: ").await;
    let mut dripped = 0;
    while client.try_send("y").await {
        dripped += 1;
        assert!(dripped < 200, "it may go on for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_slowly_sent_body_gets_408() {
    let body_timeout = Duration::from_secs(1);
    let server = Server::with(ListenerConfig { body_timeout, ..ListenerConfig::default() }).await;
    for is_first in [true, false] {
        let mut client = server.connect().await;
        if !is_first {
            client.check(ALICE).await;
        }
        client.send("POST /v1/check HTTP/1.1\r\ncontent-length: 1000\r\n\r\n").await;
        for _ in 0..8 {
            client.send(" ").await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(client.reply().await.problem(408).contains("within 1s"));
    }
}

#[tokio::test]
async fn a_connection_that_began_as_http1_stays_http1() {
    let server = Server::start().await;
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for before in [String::new(), "GET /healthz HTTP/1.1\r\n\r\n".to_owned()] {
        let mut client = server.connect().await;
        client.send(&format!("{before}{}{preface}", post(ALICE))).await;
        client.finish().await;
        if !before.is_empty() {
            assert_eq!(client.reply().await.body, "ok\n");
        }
        assert_eq!(client.reply().await.status, 200);
        let mut rest = Vec::new();
        client.read_rest(&mut rest).await;
        assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 4"), "{before} {rest:?}");
    }
}

#[tokio::test]
async fn a_client_that_half_closes_gets_all_answers() {
    let server = Server::start().await;
    for before in ["", "GET /healthz HTTP/1.1\r\n\r\n"] {
        let mut client = server.connect().await;
        client.send(&format!("{before}{}", post(ALICE).repeat(300))).await;
        client.finish().await;
        for _ in 0..300 + usize::from(!before.is_empty()) {
            client.reply().await;
        }
        assert!(client.is_closed().await);
    }
}

/// Long enough for no deadline to matter.
const PATIENT: &str =
    "policies: [{ name: demo, key: [key], limits: [10/minute], store_deadline: 5s }]";

/// A server whose store answers the first request immediately, and each later one when it is allowed
/// to.
async fn slow() -> (Server, Arc<Semaphore>) {
    let may = Arc::new(Semaphore::new(1));
    let permits = Arc::clone(&may);
    let store = Elsewhere::new(move || {
        let permits = Arc::clone(&permits);
        async move { permits.acquire().await.unwrap().forget() }
    });
    let app = App::load(&PolicySource::new("limits.yaml", PATIENT).unwrap(), store).unwrap();
    (Server::run(ListenerConfig::default(), app, ManualClock::default()).await, may)
}

#[tokio::test]
async fn an_answer_does_not_wait_for_the_next_decision() {
    let (server, may) = slow().await;
    let mut client = server.connect().await;
    client.send(&post(ALICE).repeat(2)).await;
    assert_eq!(client.reply().await.json()["source"], "store");
    may.add_permits(1);
    assert_eq!(client.reply().await.json()["source"], "store");
}

#[tokio::test]
async fn a_client_that_half_closes_gets_the_answer_of_a_slow_store() {
    let (server, may) = slow().await;
    assert_eq!(server.check(ALICE).await.status, 200);
    for before in ["", "GET /healthz HTTP/1.1\r\n\r\n"] {
        let mut client = server.connect().await;
        client.send(&format!("{before}{}", post(ALICE))).await;
        client.finish().await;
        if !before.is_empty() {
            assert_eq!(client.reply().await.body, "ok\n");
        }
        // Long enough to notice that nothing more comes.
        assert!(client.is_silent().await);
        may.add_permits(1);
        assert_eq!(client.reply().await.json()["source"], "store");
    }
}
