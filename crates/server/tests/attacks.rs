//! Clients that hold idle seats or flood a connection. Others are still served.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use support::{Client, Server, soon};
use tidegate_server::ListenerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const SEATS: usize = 50;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Timeouts are too long to matter.
async fn server() -> Server {
    let long = Duration::from_secs(600);
    Server::with(ListenerConfig {
        max_connections: SEATS,
        header_timeout: long,
        body_timeout: long,
        idle_timeout: long,
        ..ListenerConfig::default()
    })
    .await
}

/// A connection from another address of this machine.
async fn from(client: &str, to: SocketAddr) -> Client {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{client}:0").parse().unwrap()).unwrap();
    Client::over(soon(socket.connect(to)).await.unwrap())
}

#[tokio::test]
async fn attack_07_one_client_leaves_room_for_another_whatever_it_does() {
    let half_a_head = b"POST /v1/check HTTP/1.1\r\nhost: a\r\nx-long: ";
    let whole = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    for said in [&b""[..], whole, half_a_head, PREFACE, &PREFACE[..20]] {
        let server = server().await;
        let mut seats = Vec::new();
        for _ in 0..SEATS {
            let mut client = server.connect().await;
            client.send_bytes(said).await;
            seats.push(client);
        }
        for number in 2..12 {
            let mut other = from(&format!("127.0.0.{number}"), server.address).await;
            assert_eq!(other.get("/healthz").await.status, 200, "{said:?}");
        }
    }
}

fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, 0, 0, 0, 0, stream], payload].concat()
}

#[tokio::test]
async fn attack_22_a_flood_of_control_frames_ends_the_connection() {
    let server = server().await;
    for (name, flood) in [
        ("PING", frame(6, 0, b"12345678")),
        ("SETTINGS", frame(4, 0, b"")),
        ("PRIORITY", frame(2, 1, b"\0\0\0\0\x03")),
        ("WINDOW_UPDATE", frame(8, 0, b"\0\0\0\x01")),
        ("unknown", frame(99, 0, b"whatever")),
    ] {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        write.write_all(PREFACE).await.unwrap();
        // It reads the answers, as an attacker would.
        let reading = tokio::spawn(async move {
            let mut sink = [0; 4_096];
            while let Ok(1..) = read.read(&mut sink).await {}
        });
        let mut sent = 0_usize;
        let flooding = async {
            while write.write_all(&flood.repeat(100)).await.is_ok() {
                sent += 100;
                tokio::task::yield_now().await;
            }
        };
        soon(flooding).await;
        soon(reading).await.unwrap();
        assert!(sent < 100_000, "{name}: {sent}");
    }
    assert_eq!(server.connect().await.get("/healthz").await.status, 200);
}
