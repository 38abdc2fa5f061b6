//! Slow, numerous or vanished clients, and a server that stops while they are connected.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::time::Duration;

use serde_json::json;
use support::{Server, post};
use tidegate_server::ListenerConfig;
use tokio::net::TcpStream;

const ALICE: &str = r#"{"policy": "demo", "key": "alice"}"#;
const SHORT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_slow_head_is_cut_off_while_others_are_served() {
    let server =
        Server::with(ListenerConfig { header_timeout: SHORT, ..ListenerConfig::default() }).await;
    let (mut silent, mut slow) = (server.connect().await, server.connect().await);
    let (mut late, mut good) = (server.connect().await, server.connect().await);
    slow.send("POST /v1/check HTTP/1.1\r\nhost:").await;
    assert_eq!(good.check(ALICE).await.status, 200);
    // This client was answered, and then begins a head that it does not finish.
    assert_eq!(late.check(ALICE).await.status, 200);
    late.send("POST /v1").await;

    assert!(slow.is_closed().await);
    assert!(silent.is_closed().await);
    assert!(late.is_closed().await);
    // Idle for longer than the header timeout, and still served.
    assert_eq!(good.check(ALICE).await.status, 200);
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server =
        Server::with(ListenerConfig { idle_timeout: SHORT, ..ListenerConfig::default() }).await;
    let mut client = server.connect().await;
    assert_eq!(client.check(ALICE).await.status, 200);
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_slow_body_is_told_so() {
    let server =
        Server::with(ListenerConfig { body_timeout: SHORT, ..ListenerConfig::default() }).await;
    let mut client = server.connect().await;
    client.send("POST /v1/check HTTP/1.1\r\ncontent-length: 100\r\n\r\n{").await;
    assert!(client.reply().await.problem(408).contains("within 1s"));
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.send(&post(ALICE).repeat(100)).await;
    for answered in 0..100 {
        let reply = client.reply().await;
        let status = if answered < 10 { 200 } else { 429 };
        assert_eq!(reply.status, status);
        assert_eq!(reply.json()["remaining"], json!(9_i32.saturating_sub(answered).max(0)));
    }
}

#[tokio::test]
async fn an_answer_does_not_wait_for_the_next_request() {
    let server = Server::start().await;
    for begun in ["\r\n", "POST /v1/che"] {
        let mut client = server.connect().await;
        client.send(&(post(ALICE) + begun)).await;
        assert_eq!(client.reply().await.status, 200);
    }
}

#[tokio::test]
async fn connections_past_the_cap_wait_for_their_turn() {
    let server =
        Server::with(ListenerConfig { max_connections: 2, ..ListenerConfig::default() }).await;
    let (mut first, mut second) = (server.connect().await, server.connect().await);
    // Both have a request in progress.
    first.send("POST /v1/check HTTP/1.1\r\nhost:").await;
    second.send(&post(ALICE)[..60]).await;
    let mut third = server.connect().await;
    third.send(&post(ALICE)).await;
    assert!(third.is_silent().await);
    drop(first);
    assert_eq!(third.reply().await.status, 200);
}

#[tokio::test]
async fn a_client_that_breaks_off_hurts_nobody() {
    let server = Server::start().await;
    for bytes in ["", "POST", &post(ALICE)[..60], "\0\0\0\0\r\n\r\n"] {
        server.connect().await.send(bytes).await;
    }
    assert_eq!(server.check(ALICE).await.status, 200);
}

#[tokio::test]
async fn a_stopping_server_finishes_what_it_has_begun() {
    let mut server = Server::start().await;
    let (mut busy, mut idle) = (server.connect().await, server.connect().await);
    assert_eq!(idle.check(ALICE).await.status, 200);
    let request = post(ALICE);
    let (begun, rest) = request.split_at(request.len() - 5);
    busy.send(begun).await;
    assert!(busy.is_silent().await);

    server.stop();
    assert!(idle.is_closed().await);
    assert!(TcpStream::connect(server.address).await.is_err());
    busy.send(rest).await;
    let reply = busy.reply().await;
    assert_eq!((reply.status, &reply.json()["remaining"]), (200, &json!(8)));
    assert!(busy.is_closed().await);
    server.stopped().await;
}

#[tokio::test]
async fn a_drain_does_not_wait_for_ever() {
    let mut server =
        Server::with(ListenerConfig { drain_timeout: SHORT, ..ListenerConfig::default() }).await;
    let mut stuck = server.connect().await;
    stuck.send(&post(ALICE)[..60]).await;
    assert!(stuck.is_silent().await);
    server.stop();
    server.stopped().await;
    assert!(stuck.is_closed().await);
}

#[tokio::test]
async fn a_server_about_to_stop_is_healthy_and_not_ready() {
    let mut server =
        Server::with(ListenerConfig { drain_delay: SHORT, ..ListenerConfig::default() }).await;
    let mut client = server.connect().await;
    assert_eq!(client.get("/readyz").await.status, 200);
    server.stop();
    tokio::task::yield_now().await;
    assert!(server.connect().await.get("/readyz").await.problem(503).contains("draining"));
    assert_eq!(client.get("/healthz").await.status, 200);
    assert_eq!(client.check(ALICE).await.status, 200);
    server.stopped().await;
    assert!(client.is_closed().await);
}
