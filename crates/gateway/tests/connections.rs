//! How client connections end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::time::Duration;

use support::echo::Echo;
use support::{Client, Front, GENEROUS, soon};
use tidegate_server::ListenerConfig;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

#[tokio::test]
async fn a_stopping_gateway_finishes_what_it_has_begun() {
    let echo = Echo::start().await;
    let mut front = Front::to(echo.address).await;
    let (mut busy, mut idle) = (front.connect().await, front.connect().await);
    assert_eq!(idle.get("/").await.status, 200);
    busy.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhello").await;
    assert!(!busy.is_silent().await, "the head of the response comes at once");
    front.stop();
    assert!(idle.is_closed().await);
    assert!(TcpStream::connect(front.address).await.is_err());
    busy.send("world").await;
    assert_eq!(busy.reply().await.text(), "helloworld");
    assert!(busy.is_closed().await);
    front.stopped().await;
}

#[tokio::test]
async fn slow_and_silent_clients_are_cut_off() {
    let echo = Echo::start().await;
    let short = Duration::from_secs(1);
    let config =
        ListenerConfig { header_timeout: short, idle_timeout: short, ..ListenerConfig::default() };
    let text = format!("gateway: {{ upstreams: {{ up: http://{} }} }}\n{GENEROUS}", echo.address);
    let front = Front::with(&text, config).await;
    let (mut silent, mut slow) = (front.connect().await, front.connect().await);
    let mut late = front.connect().await;
    slow.send("GET / HTTP/1.1\r\nhost:").await;
    assert_eq!(late.get("/").await.status, 200);
    late.send("GET /").await;
    assert!(slow.is_closed().await);
    assert!(silent.is_closed().await);
    assert!(late.is_closed().await);
    let mut idle = front.connect().await;
    assert_eq!(idle.get("/").await.status, 200);
    assert!(idle.is_closed().await);
}

#[tokio::test]
async fn a_request_that_is_on_its_way_when_the_gateway_stops_is_answered() {
    let echo = Echo::start().await;
    let mut front = Front::to(echo.address).await;
    let (mut resting, mut idle) = (front.connect().await, front.connect().await);
    assert_eq!(resting.get("/").await.status, 200);
    assert!(resting.is_silent().await);
    assert_eq!(idle.get("/").await.status, 200);
    front.stop();
    // When the listener is seen to be closed, the open connections have been notified.
    soon(async { while TcpStream::connect(front.address).await.is_ok() {} }).await;
    for client in [&mut resting, &mut idle] {
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    }
    for client in [&mut resting, &mut idle] {
        let reply = client.reply().await;
        assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        assert!(client.is_closed().await);
    }
    front.stopped().await;
}

#[tokio::test]
async fn what_cannot_be_read_is_counted() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let mut client = front.connect().await;
    client.send("\0\0\0\r\n\r\n").await;
    assert_eq!(client.reply().await.status, 400);
    assert!(client.is_closed().await);
    let page = front.app.metrics_page().await;
    let count = "tidegate_refused_total{listener=\"gateway\",reason=\"malformed\"} 1";
    assert!(page.contains(count), "{page}");
}

/// A gateway with this many seats, and without timeouts.
async fn front(echo: &Echo, max_connections: usize) -> Front {
    let long = Duration::from_secs(600);
    let config = ListenerConfig {
        max_connections,
        header_timeout: long,
        idle_timeout: long,
        ..ListenerConfig::default()
    };
    let text = format!("gateway: {{ upstreams: {{ up: http://{} }} }}\n{GENEROUS}", echo.address);
    Front::with(&text, config).await
}

async fn has_ended(client: &mut Client) -> bool {
    let error = soon(client.0.read_u8()).await.expect_err("the end");
    error.kind() == std::io::ErrorKind::UnexpectedEof
}

#[tokio::test]
async fn the_connection_that_has_been_idle_for_longest_is_evicted() {
    let echo = Echo::start().await;
    let front = front(&echo, 3).await;
    let mut busy = front.connect().await;
    busy.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhello").await;
    assert!(!busy.is_silent().await);
    let (mut first, mut second) = (front.connect().await, front.connect().await);
    for client in [&mut first, &mut second] {
        assert_eq!(client.get("/").await.status, 200);
    }
    let mut newcomer = front.connect().await;
    assert_eq!(newcomer.get("/").await.status, 200);
    assert!(has_ended(&mut first).await);
    assert_eq!(second.get("/").await.status, 200);
    busy.send("world").await;
    assert_eq!(busy.reply().await.text(), "helloworld");
    // The connections become idle in between, and still work.
    for client in [&mut busy, &mut second, &mut newcomer] {
        assert!(client.is_silent().await);
        assert_eq!(client.get("/").await.status, 200);
    }
}

#[tokio::test]
async fn when_all_seats_are_busy_a_newcomer_waits() {
    let echo = Echo::start().await;
    let front = front(&echo, 1).await;
    let mut busy = front.connect().await;
    busy.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhello").await;
    assert!(!busy.is_silent().await);
    let mut newcomer = front.connect().await;
    newcomer.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(newcomer.is_silent().await);
    busy.send("world").await;
    assert_eq!(busy.reply().await.text(), "helloworld");
    assert_eq!(newcomer.reply().await.status, 200);
    assert!(has_ended(&mut busy).await);
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// `GET /`
const GET: &[u8] = b"\0\0\x09\x01\x05\0\0\0\x01\x82\x86\x84\x01\x04test";

/// `POST /echo`, without its body.
const POST: &[u8] = b"\0\0\x0f\x01\x04\0\0\0\x01\x83\x86\x04\x05/echo\x01\x04test";

#[tokio::test]
async fn a_partial_http2_head_is_cut_off_while_another_request_is_answered() {
    let echo = Echo::start().await;
    let config =
        ListenerConfig { header_timeout: Duration::from_secs(1), ..ListenerConfig::default() };
    let text = format!("gateway: {{ upstreams: {{ up: http://{} }} }}\n{GENEROUS}", echo.address);
    let front = Front::with(&text, config).await;
    let mut client = front.connect().await;
    client.send_bytes(&[PREFACE, POST].concat()).await;
    assert_eq!(answered(&mut client).await, 1);
    client.send_bytes(b"\0\0\x09\x01").await;
    soon(client.0.read_to_end(&mut Vec::new())).await.unwrap();
}

#[tokio::test]
async fn an_evicted_http2_client_is_told_the_last_answered_stream() {
    let echo = Echo::start().await;
    let front = front(&echo, 1).await;
    let mut first = front.connect().await;
    first.send_bytes(&[PREFACE, GET].concat()).await;
    assert_eq!(front.connect().await.get("/").await.status, 200);
    let mut said = Vec::new();
    soon(first.0.read_to_end(&mut said)).await.unwrap();
    assert!(said.ends_with(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0"), "{said:?}");
}

/// The gateway runs on this thread, so it sees everything that happens before the next await together and in
/// order.
fn newcomer(front: &Front) -> std::net::TcpStream {
    std::net::TcpStream::connect(front.address).unwrap()
}

#[tokio::test]
async fn a_request_on_a_connection_that_is_being_evicted_is_answered() {
    let echo = Echo::start().await;
    let front = front(&echo, 1).await;
    let mut client = front.connect().await;
    assert_eq!(client.get("/").await.status, 200);
    assert!(client.is_silent().await);
    let _newcomer = newcomer(&front);
    assert_eq!(client.get("/").await.status, 200);
    assert!(has_ended(&mut client).await);
}

#[tokio::test]
async fn a_request_over_http2_on_a_connection_that_is_being_evicted_is_answered() {
    let echo = Echo::start().await;
    let front = front(&echo, 1).await;
    let mut client = front.connect().await;
    client.send_bytes(&[PREFACE, GET].concat()).await;
    assert_eq!(answered(&mut client).await, 1);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let _newcomer = newcomer(&front);
    let mut again = GET.to_vec();
    again[8] = 3;
    client.send_bytes(&again).await;
    assert_eq!(answered(&mut client).await, 3);
}

/// The stream of the next response.
async fn answered(client: &mut Client) -> u8 {
    loop {
        let mut head = [0; 9];
        soon(client.0.read_exact(&mut head)).await.expect("a frame");
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        soon(client.0.read_exact(&mut vec![0; length])).await.expect("a payload");
        if head[3] == 1 {
            return head[8];
        }
    }
}
