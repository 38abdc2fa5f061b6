//! HTTP/2 on the same port: correct clients, and clients that abuse it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod support;

use std::process::Command;
use std::time::Duration;

use support::{Client, Server};
use tidegate_server::ListenerConfig;
use tidegate_testkit::peer;

const ALICE: &str = r#"{"policy": "demo", "key": "alice"}"#;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SHORT: Duration = Duration::from_secs(1);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ENHANCE_YOUR_CALM: u8 = 11;
const POST_CHECK: &[u8] = b"\x83\x86\x04\x09/v1/check\x01\x09localhost";
/// `GET /healthz`: two fields of the static table, and a literal path.
const GET_HEALTH: &[u8] = b"\x82\x86\x04\x08/healthz\x01\x09localhost";

/// A client that sends arbitrary frames.
struct Frames(Client);

impl Frames {
    async fn connect(server: &Server) -> Self {
        let mut client = server.connect().await;
        client.send_bytes(PREFACE).await;
        client.send_bytes(&frame(SETTINGS, 0, 0, b"")).await;
        Self(client)
    }

    /// Ignores errors: the server may have closed the connection already.
    async fn send(&mut self, bytes: &[u8]) {
        self.0.try_send_bytes(bytes).await;
    }

    /// The next frame of this kind, with its flags; others are skipped.
    async fn next(&mut self, wanted: u8) -> Vec<u8> {
        loop {
            let head = self.0.bytes(9).await;
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8;
            let payload = self.0.bytes(length | usize::from(head[2])).await;
            if head[3] == wanted {
                return payload;
            }
        }
    }

    /// Waits until the server has seen everything that was sent: it answers a ping in turn.
    async fn is_heard(&mut self) {
        self.send(&frame(PING, 0, 0, b"12345678")).await;
        assert_eq!(self.next(PING).await, b"12345678");
    }

    /// The error code of the server's GOAWAY frame.
    async fn goaway(&mut self) -> u8 {
        let payload = self.next(GOAWAY).await;
        payload[7]
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn get_health(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, GET_HEALTH)
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_speaks_it_with_prior_knowledge() {
    let Some(curl) = peer("curl") else { return };
    let server = Server::start().await;
    let url = format!("http://{}/v1/check", server.address);
    let mut command = Command::new(curl);
    command.args(["-s", "--max-time", "10", "--http2-prior-knowledge", "-w", " %{http_version}"]);
    let output = command.args([&url, "-d", ALICE]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains(r#""remaining":9"#) && said.ends_with(" 2"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn h2load_gets_an_answer_to_every_request() {
    let Some(h2load) = peer("h2load") else { return };
    let server = Server::start().await;
    let url = format!("http://{}/healthz", server.address);
    for protocol in [&["-m", "32"][..], &["--h1"]] {
        let mut command = Command::new(&h2load);
        command.args(["-n", "2000", "-c", "4"]).args(protocol).arg(&url);
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(said.contains("2000 succeeded, 0 failed, 0 errored"), "{said}");
    }
}

#[tokio::test]
async fn an_idle_client_is_told_to_leave() {
    let server =
        Server::with(ListenerConfig { idle_timeout: SHORT, ..ListenerConfig::default() }).await;
    let mut client = Frames::connect(&server).await;
    client.send(&get_health(1)).await;
    assert_eq!(client.next(HEADERS).await[0], 0x88);
    assert_eq!(client.goaway().await, 0);
}

#[tokio::test]
async fn a_client_that_makes_way_is_told_what_was_answered() {
    let server =
        Server::with(ListenerConfig { max_connections: 2, ..ListenerConfig::default() }).await;
    let mut busy = Frames::connect(&server).await;
    // A request whose body is still to come.
    busy.send(&frame(HEADERS, END_HEADERS, 1, POST_CHECK)).await;
    busy.is_heard().await;
    let mut idle = Frames::connect(&server).await;
    for stream in [1, 3] {
        idle.send(&get_health(stream)).await;
        assert_eq!(idle.next(HEADERS).await[0], 0x88);
    }
    assert_eq!(server.connect().await.get("/healthz").await.status, 200);
    assert_eq!(idle.next(GOAWAY).await, [0, 0, 0, 3, 0, 0, 0, 0]);
    assert!(idle.0.has_ended().await);
    busy.send(&frame(DATA, END_STREAM, 1, ALICE.as_bytes())).await;
    assert_eq!(busy.next(HEADERS).await[0], 0x88);
}

#[tokio::test]
async fn a_client_that_asks_as_it_has_to_make_way_is_answered_and_then_told() {
    let server =
        Server::with(ListenerConfig { max_connections: 1, ..ListenerConfig::default() }).await;
    let mut client = Frames::connect(&server).await;
    client.send(&get_health(1)).await;
    assert_eq!(client.next(HEADERS).await[0], 0x88);
    tokio::time::sleep(SHORT).await;
    // The server runs in this thread: it sees both together, and the newcomer first.
    let _newcomer = std::net::TcpStream::connect(server.address).unwrap();
    client.send(&get_health(3)).await;
    assert_eq!(client.next(HEADERS).await[0], 0x88);
    assert_eq!(client.next(GOAWAY).await, [0, 0, 0, 3, 0, 0, 0, 0], "its request is the last");
}

#[tokio::test]
async fn a_head_that_comes_in_part_has_no_longer_than_one_of_http1() {
    let server =
        Server::with(ListenerConfig { header_timeout: SHORT, ..ListenerConfig::default() }).await;
    let mut patient = Frames::connect(&server).await;
    patient.is_heard().await;
    let head = get_health(3);
    let without_end = frame(HEADERS, END_STREAM, 3, GET_HEALTH);
    let more = [&without_end[..], &frame(CONTINUATION, 0, 3, b"")].concat();
    for part in [&head[..4], &head[..9], &head[..head.len() - 1], &without_end, &more] {
        let mut client = Frames::connect(&server).await;
        client.send(&get_health(1)).await;
        assert_eq!(client.next(HEADERS).await[0], 0x88);
        client.send(part).await;
        client.0.drain().await;
    }
    // Silent for longer than the header timeout, and still served.
    patient.send(&get_health(1)).await;
    assert_eq!(patient.next(HEADERS).await[0], 0x88);
}

#[tokio::test]
async fn a_stopping_server_says_so_and_answers_what_has_begun() {
    let mut server = Server::start().await;
    let mut client = Frames::connect(&server).await;
    // A head without an end, so that the request is in progress.
    client
        .send(&frame(HEADERS, END_HEADERS, 1, b"\x83\x86\x04\x09/v1/check\x01\x09localhost"))
        .await;
    client.is_heard().await;
    server.stop();
    assert_eq!(client.goaway().await, 0);
    client.send(&frame(0, END_STREAM, 1, ALICE.as_bytes())).await;
    assert_eq!(client.next(HEADERS).await[0], 0x88);
    server.stopped().await;
}

#[tokio::test]
async fn a_client_that_takes_everything_back_at_once_is_sent_away() {
    let server = Server::start().await;
    let mut rapid = Frames::connect(&server).await;
    let mut storm = Vec::new();
    for stream in (1..2_001).step_by(2) {
        storm.extend(get_health(stream));
        storm.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
    }
    rapid.send(&storm).await;
    assert_eq!(rapid.goaway().await, ENHANCE_YOUR_CALM);
    assert_eq!(server.check(ALICE).await.status, 200);
}

#[tokio::test]
async fn a_head_without_end_is_cut_off() {
    let server = Server::start().await;
    let mut endless = Frames::connect(&server).await;
    endless.send(&frame(HEADERS, END_STREAM, 1, GET_HEALTH)).await;
    // Fields of the static table, each of which is larger than its encoding.
    let more = frame(CONTINUATION, 0, 1, &[0x82; 10_000]);
    for _ in 0..20 {
        endless.send(&more).await;
    }
    assert_ne!(endless.goaway().await, 0);
    assert_eq!(server.check(ALICE).await.status, 200);
}

#[tokio::test]
async fn a_large_head_is_refused_and_others_on_the_connection_are_not() {
    let server = Server::start().await;
    let mut client = Frames::connect(&server).await;
    let mut head = GET_HEALTH.to_vec();
    // Two fields of 15,000 bytes each, with literal names.
    for name in [b"a", b"b"] {
        head.extend([0, 1, name[0], 0x7f, 0x99, 0x74]);
        head.extend([b'x'; 15_000]);
    }
    client.send(&frame(HEADERS, END_STREAM, 1, &head[..16_000])).await;
    client.send(&frame(CONTINUATION, END_HEADERS, 1, &head[16_000..])).await;
    client.send(&get_health(3)).await;
    // 431, as a literal value of `:status`; or only the stream is reset.
    let first = client.next(HEADERS).await;
    let second = if first[0] == 0x88 { first } else { client.next(HEADERS).await };
    assert_eq!(second[0], 0x88);
}

#[tokio::test]
async fn more_requests_than_a_connection_may_have_are_refused_one_by_one() {
    let server = Server::with(ListenerConfig { max_streams: 4, ..ListenerConfig::default() }).await;
    let mut client = Frames::connect(&server).await;
    let open =
        |stream| frame(HEADERS, END_HEADERS, stream, b"\x83\x86\x04\x09/v1/check\x01\x09localhost");
    for stream in [1, 3, 5, 7, 9] {
        client.send(&open(stream)).await;
    }
    let refused = client.next(RST_STREAM).await;
    // REFUSED_STREAM: the client can retry.
    assert_eq!(refused, [0, 0, 0, 7]);
    client.send(&frame(0, END_STREAM, 1, ALICE.as_bytes())).await;
    assert_eq!(client.next(HEADERS).await[0], 0x88);
}
