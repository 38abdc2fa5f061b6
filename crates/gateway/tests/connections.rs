//! How connections of clients end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::time::Duration;

use support::echo::Echo;
use support::{Front, GENEROUS};
use tidegate_server::Config;
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
    let short = Duration::from_millis(300);
    let config = Config { header_timeout: short, idle_timeout: short, ..Config::default() };
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
