//! Clients that find all seats taken: the connection that has been idle for longest is evicted.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod support;

use std::time::Duration;

use support::{Client, Server, post};
use tidegate_server::{GRACE, ListenerConfig};
use tokio::time::Instant;

const ALICE: &str = r#"{"policy": "demo", "key": "alice"}"#;

async fn server(max_connections: usize) -> Server {
    // Too long to matter here.
    let long = Duration::from_secs(600);
    let config = ListenerConfig {
        header_timeout: long,
        body_timeout: long,
        idle_timeout: long,
        ..ListenerConfig::default()
    };
    Server::with(ListenerConfig { max_connections, ..config }).await
}

async fn is_well(client: &mut Client) -> bool {
    client.get("/healthz").await.status == 200
}

#[tokio::test]
async fn only_the_longest_idle_connection_is_closed() {
    let server = server(3).await;
    let mut clients = vec![server.connect().await, server.connect().await, server.connect().await];
    // Some are answered by the fast path and some by hyper. The last to connect is the first to be idle.
    assert!(is_well(&mut clients[2]).await);
    assert_eq!(clients[0].check(ALICE).await.status, 200);
    assert!(is_well(&mut clients[1]).await);
    for oldest in [2, 0, 1] {
        let mut newcomer = server.connect().await;
        assert_eq!(newcomer.post("/v1/check", ALICE).await.status, 200);
        let mut leaver = std::mem::replace(&mut clients[oldest], newcomer);
        assert!(leaver.has_ended().await);
    }
    for client in &mut clients {
        assert!(is_well(client).await);
    }
}

#[tokio::test]
async fn a_new_request_resets_the_idle_time() {
    let server = server(2).await;
    let mut clients = [server.connect().await, server.connect().await];
    for client in [0, 1, 0] {
        assert!(is_well(&mut clients[client]).await);
        // Long enough to be idle in between.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(is_well(&mut server.connect().await).await);
    assert!(clients[1].has_ended().await);
    assert!(is_well(&mut clients[0]).await);
}

#[tokio::test]
async fn a_connection_with_an_open_request_is_not_evicted() {
    let server = server(4).await;
    let request = post(ALICE);
    let mut busy = Vec::new();
    // In the middle of a line, between head and body, and in a body that hyper reads.
    for length in [10, request.len() - ALICE.len(), request.len() - 1] {
        let mut client = server.connect().await;
        assert_eq!(client.get("/healthz").await.status, 200);
        client.send(&request[..length]).await;
        busy.push((client, &request[length..]));
    }
    let mut idle = server.connect().await;
    assert!(is_well(&mut idle).await);
    for _ in 0..3 {
        let mut newcomer = server.connect().await;
        assert!(is_well(&mut newcomer).await);
        assert!(idle.has_ended().await);
        idle = newcomer;
    }
    for (mut client, rest) in busy {
        client.send(rest).await;
        assert_eq!(client.reply().await.status, 200);
    }
}

#[tokio::test]
async fn when_all_seats_are_busy_a_newcomer_waits() {
    let server = server(2).await;
    let (mut first, mut second) = (server.connect().await, server.connect().await);
    let request = post(ALICE);
    for client in [&mut first, &mut second] {
        client.send(&request[..60]).await;
    }
    let mut newcomer = server.connect().await;
    newcomer.send(&request).await;
    assert!(newcomer.is_silent().await);
    second.send(&request[60..]).await;
    assert_eq!(second.reply().await.status, 200);
    assert_eq!(newcomer.reply().await.status, 200);
    assert!(second.has_ended().await);
    first.send(&request[60..]).await;
    assert_eq!(first.reply().await.status, 200);
}

#[tokio::test]
async fn a_connection_without_a_request_is_evicted_after_a_while() {
    let server = server(1).await;
    let begun = Instant::now();
    let mut silent = server.connect().await;
    assert!(is_well(&mut server.connect().await).await);
    assert!(begun.elapsed() >= GRACE);
    assert!(silent.has_ended().await);
}
