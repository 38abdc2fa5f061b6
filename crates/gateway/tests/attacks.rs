//! Clients that occupy seats, slots and time to no purpose. Other clients must still be served.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use support::echo::Echo;
use support::{Client, Front, GENEROUS, soon};
use tidegate_server::ListenerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpSocket;
use tokio::time::sleep;

const SEATS: usize = 50;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// `GET /`
const GET: &[u8] = b"\0\0\x09\x01\x05\0\0\0\x01\x82\x86\x84\x01\x04test";
const HALF: &str = "GET / HTTP/1.1\r\nhost: a\r\nx-long: ";

/// No connection is closed by a timeout.
fn patient() -> ListenerConfig {
    let long = Duration::from_secs(600);
    ListenerConfig {
        max_connections: SEATS,
        header_timeout: long,
        idle_timeout: long,
        ..ListenerConfig::default()
    }
}

/// A connection from another address of this machine.
async fn from(client: &str, to: SocketAddr) -> Client {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{client}:0").parse().unwrap()).unwrap();
    Client(BufStream::new(soon(socket.connect(to)).await.unwrap()))
}

/// Opens connections one after the other; each gets one response.
async fn visitors(front: &Front) {
    for number in 2..12 {
        let mut visitor = from(&format!("127.0.0.{number}"), front.address).await;
        assert_eq!(visitor.get("/").await.status, 200, "{number}");
    }
}

async fn limited(echo: &Echo) -> Front {
    let policies = "policies: [{ name: few, key: [ip], limits: [3/hour] }]";
    let text = format!("gateway: {{ upstreams: {{ up: http://{} }} }}\n{policies}", echo.address);
    Front::with(&text, patient()).await
}

#[tokio::test]
async fn attack_07_silent_connections_leave_room_for_others_denied_or_not() {
    let echo = Echo::start().await;
    let front = limited(&echo).await;
    let mut seats = Vec::new();
    for number in 0..SEATS {
        let mut client = front.connect().await;
        assert_eq!(client.get("/").await.status, if number < 3 { 200 } else { 429 });
        seats.push(client);
    }
    visitors(&front).await;
    // The denied connections were closed first.
    for client in &mut seats[..3] {
        assert_eq!(client.get("/").await.status, 429);
    }
    assert!(seats[3].is_closed().await);
}

#[tokio::test]
async fn attack_07_half_a_head_leaves_room_for_others() {
    let echo = Echo::start().await;
    let front = limited(&echo).await;
    let mut seats = Vec::new();
    for number in 0..SEATS {
        let mut client = front.connect().await;
        // Some of them have sent a request before.
        if number < 3 {
            assert_eq!(client.get("/").await.status, 200);
            assert!(client.is_silent().await);
        }
        client.send(HALF).await;
        seats.push(client);
    }
    visitors(&front).await;
}

#[tokio::test]
async fn attack_07_http2_without_a_request_or_after_one_leaves_room_for_others() {
    let echo = Echo::start().await;
    for requests in [0, SEATS] {
        let front = limited(&echo).await;
        let mut seats = Vec::new();
        for number in 0..SEATS {
            let mut client = front.connect().await;
            client.send_bytes(PREFACE).await;
            if number < requests {
                client.send_bytes(GET).await;
            }
            seats.push(client);
        }
        visitors(&front).await;
    }
}

#[tokio::test]
async fn attack_07_half_a_head_over_http2_leaves_room_for_others() {
    let echo = Echo::start().await;
    let front = limited(&echo).await;
    let mut seats = Vec::new();
    for _ in 0..SEATS {
        let mut client = front.connect().await;
        client.send_bytes(&[PREFACE, &GET[..12]].concat()).await;
        seats.push(client);
    }
    let mut visitor = from("127.0.0.2", front.address).await;
    assert_eq!(visitor.get("/").await.status, 200);
}

#[tokio::test]
async fn attack_07_whoever_is_answered_keeps_its_seat_up_to_its_share() {
    let echo = Echo::start().await;
    let text = format!("gateway: {{ upstreams: {{ up: http://{} }} }}\n{GENEROUS}", echo.address);
    let config = ListenerConfig { max_connections_per_client: Some(10), ..patient() };
    let front = Front::with(&text, config).await;
    let mut seats = Vec::new();
    for _ in 0..SEATS {
        let mut client = front.connect().await;
        // The response has begun, and never ends.
        client.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhello").await;
        assert_eq!(client.line().await, "HTTP/1.1 200 OK");
        seats.push(client);
    }
    visitors(&front).await;
    let mut left = 0;
    for mut client in seats {
        left += usize::from(client.try_send(b"world").await && client.reply_ends().await);
    }
    assert!((SEATS - 10..SEATS).contains(&left), "{left}");
}

#[tokio::test]
async fn attack_07_only_a_request_begins_a_new_time_of_silence() {
    let echo = Echo::start().await;
    // Only the idle time may end the connection, so that nothing else hides what this is about.
    let config = ListenerConfig { idle_timeout: Duration::from_millis(500), ..patient() };
    let text = format!("gateway: {{ upstreams: {{ up: http://{} }} }}\n{GENEROUS}", echo.address);
    let front = Front::with(&text, config).await;
    let mut client = front.connect().await;
    client.send_bytes(&[PREFACE, GET].concat()).await;
    // Each ping comes in two halves, and the first could be the beginning of a head.
    let ping = b"\0\0\x08\x06\0\0\0\0\x0012345678";
    let pings = async {
        loop {
            for half in ping.chunks(9) {
                if !client.try_send(half).await {
                    return;
                }
                sleep(Duration::from_millis(50)).await;
            }
        }
    };
    soon(pings).await;
}

/// A service with few slots and a minimum rate for bodies.
fn few_places(scheme: &str, echo: &Echo, places: usize) -> String {
    format!(
        "gateway: {{ upstreams: {{ up: {{ urls: '{scheme}://{}', max_requests: {places}, \
         uploads: {{ least_rate: 1000, grace: 500ms }} }} }} }}\n\
         trusted_proxies: [127.0.0.1]\n{GENEROUS}",
        echo.address
    )
}

#[tokio::test]
async fn attack_12_an_upload_that_comes_too_slowly_gives_its_place_up() {
    for (scheme, echo) in [("http", Echo::start().await), ("h2c", Echo::h2().await)] {
        let front = Front::start(&few_places(scheme, &echo, 1)).await;
        let mut slow = front.connect().await;
        slow.send("POST /upload HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n").await;
        while echo.requests() == 0 {
            sleep(Duration::from_millis(5)).await;
        }
        front.get("/").await.problem(503);
        // A byte now and then, so that the client is never silent for long.
        let upload = async {
            while slow.is_silent().await && slow.try_send(b"x").await {}
            slow.reply().await
        };
        let detail = soon(upload).await.problem(408);
        assert_eq!(detail, "up: the request body arrives too slowly", "{scheme}");
        assert!(slow.is_closed().await);
        assert_eq!(front.get("/").await.status, 200, "{scheme}");
        let page = front.app.metrics_page().await;
        assert!(
            page.contains("tidegate_upstream_requests_total{upstream=\"up\",result=\"slow\"} 1"),
            "{page}"
        );
    }
}

#[tokio::test]
async fn attack_12_a_service_that_answers_meanwhile_may_be_talked_to_slowly() {
    for (scheme, echo) in [("http", Echo::start().await), ("h2c", Echo::h2().await)] {
        let front = Front::start(&few_places(scheme, &echo, 1)).await;
        let mut client = front.connect().await;
        client.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\n").await;
        for _ in 0..8 {
            // Ten times slower than the minimum rate before a response.
            sleep(Duration::from_millis(150)).await;
            client.send("x").await;
        }
        assert_eq!(client.reply().await.text(), "xxxxxxxx", "{scheme}");
    }
}

#[tokio::test]
async fn attack_12_no_client_takes_all_places_of_a_service() {
    let echo = Echo::start().await;
    let text = few_places("http", &echo, 20).replace("500ms", "1h");
    let front = Front::start(&text).await;
    let ask = |client: &str| {
        format!(
            "POST /upload HTTP/1.1\r\nhost: a\r\nx-forwarded-for: {client}\r\n\
             content-length: 5\r\n\r\n"
        )
    };
    let (mut uploads, mut refused) = (Vec::new(), 0);
    for _ in 0..20 {
        let mut client = front.connect().await;
        let before = echo.requests();
        client.send(&ask("192.0.2.66")).await;
        // Either the service gets the request, or the client gets a refusal.
        while echo.requests() == before {
            if !client.is_silent().await {
                let detail = client.reply().await.problem(503);
                assert!(detail.contains("this client has used its share"), "{detail}");
                refused += 1;
                break;
            }
        }
        uploads.push(client);
    }
    assert_eq!(refused, 8);
    let mut other = front.connect().await;
    other.send(&(ask("192.0.2.1") + "hello")).await;
    assert_eq!(other.reply().await.status, 200);
}

fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, 0, 0, 0, 0, stream], payload].concat()
}

#[tokio::test]
async fn attack_22_a_flood_of_control_frames_ends_the_connection() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    for (name, flood) in [
        ("PING", frame(6, 0, b"12345678")),
        ("SETTINGS", frame(4, 0, b"")),
        ("PRIORITY", frame(2, 1, b"\0\0\0\0\x01")),
        ("WINDOW_UPDATE", frame(8, 0, b"\0\0\0\x01")),
        ("unknown", frame(99, 0, b"whatever")),
    ] {
        let stream = tokio::net::TcpStream::connect(front.address).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        write.write_all(&[PREFACE, GET].concat()).await.unwrap();
        // It reads the responses, as an attacker would.
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
    assert_eq!(front.get("/").await.status, 200);
}

#[tokio::test]
async fn whoever_acknowledges_every_piece_of_a_large_answer_gets_all_of_it() {
    const SIZE: usize = 24 << 20;
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let stream = tokio::net::TcpStream::connect(front.address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut read, mut write) = stream.into_split();
    // `POST /echo`, and then as much of the body as the windows allow.
    let head = b"\x83\x86\x04\x05/echo\x01\x04test";
    let mut request = frame(1, 1, head);
    request[4] = 4;
    write.write_all(&[PREFACE, &request].concat()).await.unwrap();
    let (window, mut widened) = tokio::sync::mpsc::unbounded_channel();
    let writing = async move {
        // The stream's window, and the connection's.
        let (mut left, mut room) = (SIZE, [65_535_usize; 2]);
        loop {
            let size = room[0].min(room[1]).min(left).min(16_000);
            if size > 0 {
                let mut data = frame(0, 1, b"");
                data[1..3].copy_from_slice(&u16::try_from(size).unwrap().to_be_bytes());
                data[4] = u8::from(size == left);
                data.resize(9 + size, b'x');
                write.write_all(&data).await.unwrap();
                (left, room) = (left - size, room.map(|it| it - size));
            }
            loop {
                let next = match size {
                    0 => widened.recv().await,
                    _ => widened.try_recv().ok(),
                };
                match next {
                    Some((Some(stream), size)) => room[stream] += size,
                    // After each piece, the client updates both windows by its length, and pings.
                    Some((None, size)) => {
                        let size = u32::try_from(size).unwrap().to_be_bytes();
                        for stream in [0, 1] {
                            write.write_all(&frame(8, stream, &size)).await.unwrap();
                        }
                        write.write_all(&frame(6, 0, b"bandwith")).await.unwrap();
                    }
                    None if size == 0 => return,
                    None => break,
                }
                if size == 0 {
                    break;
                }
            }
        }
    };
    let reading = async move {
        let mut got = 0;
        while got < SIZE {
            let mut head = [0; 9];
            read.read_exact(&mut head).await.expect("a frame");
            let length = usize::from(head[1]) << 8 | usize::from(head[2]);
            let mut payload = vec![0; length];
            read.read_exact(&mut payload).await.expect("a payload");
            match head[3] {
                0 if length > 0 => {
                    got += length;
                    let _ = window.send((None, length));
                }
                8 => {
                    let size = u32::from_be_bytes(payload.try_into().unwrap()) as usize;
                    let stream = usize::from(head[8] == 1);
                    let _ = window.send((Some(stream), size));
                }
                _ => {}
            }
        }
        got
    };
    let all = async {
        tokio::select! {
            got = reading => got,
            () = async { writing.await; std::future::pending().await } => 0,
        }
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(120), all).await.unwrap(), SIZE);
}
