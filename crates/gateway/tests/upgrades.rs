//! Connections that are upgraded to another protocol.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use support::echo::Echo;
use support::recorder::{Manner, Recorder};
use support::{Front, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[tokio::test]
async fn a_connection_becomes_a_tunnel_when_both_sides_want_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n\
                      upgrade: echo\r\nx-more: 1\r\n\r\nfirst words";
        stream.write_all(answer.as_bytes()).await.unwrap();
        let (mut read, mut write) = stream.split();
        tokio::io::copy(&mut read, &mut write).await.unwrap();
        String::from_utf8(head).unwrap()
    });
    let front = Front::to(address).await;
    let mut client = front.connect().await;
    // Bytes that arrive early belong to the tunnel; they look like a request on purpose.
    client
        .send(
            "GET /ws HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: echo\r\n\
             x-key: 1\r\n\r\nGET / HTTP/1.1\n\n",
        )
        .await;
    assert_eq!(client.line().await, "HTTP/1.1 101 Switching Protocols");
    let mut fields = Vec::new();
    loop {
        match client.line().await {
            line if line.is_empty() => break,
            line => fields.push(line.to_ascii_lowercase()),
        }
    }
    assert!(fields.contains(&"upgrade: echo".to_owned()), "{fields:?}");
    assert!(fields.contains(&"x-more: 1".to_owned()), "{fields:?}");
    let mut words = vec![0; 11 + 16];
    soon(client.0.read_exact(&mut words)).await.unwrap();
    assert_eq!(words, b"first wordsGET / HTTP/1.1\n\n");
    client.send("\0\x01binary\r\n\r\n").await;
    let mut back = vec![0; 12];
    soon(client.0.read_exact(&mut back)).await.unwrap();
    assert_eq!(back, b"\0\x01binary\r\n\r\n");
    drop(client);
    let head = soon(service).await.unwrap();
    assert!(head.contains("connection: upgrade\r\nupgrade: echo\r\n"), "{head}");
}

#[tokio::test]
async fn an_upgrade_that_is_declined_is_a_request_like_any_other() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let mut client = front.connect().await;
    for protocol in ["websocket", "h2c"] {
        client
            .send(&format!(
                "GET /ws HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings\r\n\
                 upgrade: {protocol}\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n\
                 GET /next HTTP/1.1\r\nhost: a\r\n\r\n"
            ))
            .await;
        assert_eq!(client.reply().await.json()["target"], "/ws");
        assert_eq!(client.reply().await.json()["target"], "/next");
    }
}

#[tokio::test]
async fn a_service_that_switches_unasked_is_not_followed() {
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n";
    let service = Recorder::with(vec![Manner::Answer(switch.to_vec())]).await;
    let front = Front::to(service.address).await;
    let mut client = front.connect().await;
    assert!(client.get("/").await.problem(502).contains("unrequested"));
}
