//! Clients that are broken, slow or mean. The service stays up, and a good client is served.

use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::Request;
use tidegate_server::Config;
use tidegate_wire::envoy::RateLimitRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{Client, METHOD, Server, entry, frame, framed, post, request, soon};

const LIMITS: &str = "policies: [{ name: p, key: [a], limits: [1000000/minute] }]";
const SHORT: Duration = Duration::from_secs(1);

fn good() -> RateLimitRequest {
    request([entry("a", "x")])
}

#[tokio::test]
async fn bad_messages_are_told_from_each_other() {
    let server = Server::start(LIMITS).await;
    let client = server.connect().await;
    let good_bytes = framed(&good());
    for (body, code, expected) in [
        (Bytes::new(), 13, "0 bytes"),
        (Bytes::from_static(b"\0\0"), 13, "2 bytes"),
        (frame(0, b"\xff\xff\xff"), 3, "failed to decode"),
        (frame(1, &good_bytes[5..]), 12, "the message is compressed: expected identity"),
        (frame(7, &good_bytes[5..]), 13, "flag 7"),
        (good_bytes.slice(..good_bytes.len() - 1), 13, "expected one message, of"),
        ([&good_bytes[..], &good_bytes[..]].concat().into(), 13, "expected one message, of"),
        (Bytes::from_static(b"\0\xff\xff\xff\xff"), 8, "expected at most 65536 bytes"),
        (frame(0, &vec![0; 65_537]), 8, "the message is too large"),
    ] {
        let (found, message) = client.call(METHOD, body).await.refusal();
        assert_eq!(found, code, "{message}");
        assert!(message.contains(expected), "{message}");
    }
    client.ask(&good()).await;
}

#[tokio::test]
async fn a_client_without_a_call_makes_way_and_is_told_so() {
    let server = Server::with(LIMITS, Config { max_connections: 2, ..Config::default() }).await;
    let busy = server.connect().await;
    busy.ask(&good()).await;
    // A call whose message is still to come.
    let (response, mut message) =
        busy.0.clone().ready().await.unwrap().send_request(post(METHOD), false).unwrap();
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    idle.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    server.ask(&good()).await;
    let mut said = Vec::new();
    soon(idle.read_to_end(&mut said)).await.unwrap();
    assert!(said.ends_with(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0"), "{said:?}");
    message.send_data(framed(&good()), true).unwrap();
    assert_eq!(soon(response).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_message_in_pieces_is_put_together() {
    let server = Server::start(LIMITS).await;
    let client = server.connect().await;
    let body = framed(&good());
    let (response, mut stream) =
        client.0.clone().ready().await.unwrap().send_request(post(METHOD), false).unwrap();
    for byte in &body {
        stream.send_data(Bytes::copy_from_slice(&[*byte]), false).unwrap();
    }
    stream.send_data(Bytes::new(), true).unwrap();
    assert_eq!(soon(response).await.unwrap().status(), 200);
}

#[tokio::test]
async fn what_is_not_there_is_unimplemented_and_what_is_no_grpc_is_told_so() {
    let server = Server::start(LIMITS).await;
    let client = server.connect().await;
    for path in ["/", "/x", &METHOD.to_lowercase(), "/grpc.health.v1.Health2/Check"] {
        let (code, message) = client.call(path, framed(&good())).await.refusal();
        assert_eq!((code, message.starts_with("no method")), (12, true), "{message}");
    }
    assert_eq!(client.call("/grpc.health.v1.Health/Chek", Bytes::new()).await.code(), 12);
    let get = Request::get("http://test/healthz").body(()).unwrap();
    assert_eq!(client.send(get, Bytes::new()).await.unwrap().http, 415);
    let mut web = post(METHOD);
    web.headers_mut().insert("content-type", "application/grpc-web".parse().unwrap());
    assert_eq!(client.send(web, framed(&good())).await.unwrap().http, 415);
    let mut proto = post(METHOD);
    proto.headers_mut().insert("content-type", "application/grpc+proto".parse().unwrap());
    assert_eq!(client.send(proto, framed(&good())).await.unwrap().code(), 0);
}

#[tokio::test]
async fn garbage_and_other_protocols_end_their_connection_only() {
    let server = Server::start(LIMITS).await;
    let client = server.connect().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let continuation = [&preface[..], b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x09\0\0\0\0\x01x"].concat();
    for bytes in [
        &b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..],
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
        b"\0\0\0\0",
        &[0xff; 4_096],
        // A frame of 16 MB, a frame of an unknown kind, and a continuation of nothing.
        &[&preface[..], &[0xff; 9]].concat(),
        &[&preface[..], b"\0\0\0\xee\0\0\0\0\x01"].concat(),
        &continuation,
    ] {
        let mut bad = TcpStream::connect(server.address).await.unwrap();
        bad.write_all(bytes).await.unwrap();
        bad.shutdown().await.unwrap();
        let mut said = Vec::new();
        // A reset is as good an end as any.
        let _ = soon(bad.read_to_end(&mut said)).await;
        client.ask(&good()).await;
    }
}

#[tokio::test]
async fn rapid_resets_end_their_connection_and_nobody_elses() {
    let server = Server::start(LIMITS).await;
    let good_client = server.connect().await;
    let bad = server.connect().await;
    let mut reset = 0;
    let ended = loop {
        let mut sender = match soon(bad.0.clone().ready()).await {
            Ok(sender) => sender,
            Err(error) => break error,
        };
        match sender.send_request(post(METHOD), false) {
            Ok((_, mut stream)) => stream.send_reset(Reason::CANCEL),
            Err(error) => break error,
        }
        reset += 1;
        assert!(reset < 100_000, "nobody minds");
        if reset % 1_000 == 0 {
            tokio::task::yield_now().await;
        }
    };
    // The server may be gone before its reason is read.
    let is_told = ended.reason() == Some(Reason::ENHANCE_YOUR_CALM);
    assert!(is_told || ended.is_io(), "{ended}");
    good_client.ask(&good()).await;
}

#[tokio::test]
async fn heads_are_bounded() {
    let server = Server::start(LIMITS).await;
    let client = server.connect().await;
    let mut head = post(METHOD);
    head.headers_mut().insert("x-large", "x".repeat(20_000).parse().unwrap());
    let refused = match client.send(head, framed(&good())).await {
        Ok(reply) => reply.http == 431,
        Err(_) => true,
    };
    assert!(refused);
    server.connect().await.ask(&good()).await;
}

#[tokio::test]
async fn no_more_streams_than_allowed_are_open_at_once() {
    let server = Server::start(LIMITS).await;
    let client = server.connect().await;
    client.ask(&good()).await;
    assert_eq!(client.0.current_max_send_streams(), 200);
}

#[tokio::test]
async fn who_does_not_speak_or_not_finish_is_let_go() {
    let config = Config {
        header_timeout: SHORT,
        body_timeout: SHORT,
        idle_timeout: SHORT * 3,
        ..Config::default()
    };
    let server = Server::with(LIMITS, config).await;
    // Says nothing at all, or no more than that it speaks HTTP/2.
    for words in [&b""[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"] {
        let mut silent = TcpStream::connect(server.address).await.unwrap();
        silent.write_all(words).await.unwrap();
        assert!(matches!(soon(silent.read_to_end(&mut Vec::new())).await, Ok(_) | Err(_)));
    }
    // Begins a message.
    let client = server.connect().await;
    let (response, mut stream) =
        client.0.clone().ready().await.unwrap().send_request(post(METHOD), false).unwrap();
    stream.send_data(framed(&good()).slice(..7), false).unwrap();
    let response = soon(response).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "4");
    assert_eq!(response.headers()["grpc-message"], "no decision within 1s");
    // Idles; it is told that the connection ends, and can start another.
    client.ask(&good()).await;
    let idle = soon(async {
        loop {
            if client.0.clone().ready().await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    idle.await;
    server.connect().await.ask(&good()).await;
}

#[tokio::test]
async fn a_head_that_does_not_end_is_cut_off() {
    let config = Config { header_timeout: SHORT, ..Config::default() };
    let server = Server::with(LIMITS, config).await;
    let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    // Part of a frame; a whole one that says that the head goes on.
    for part in [&b"\0\0\x02\x01"[..], b"\0\0\x02\x01\0\0\0\0\x01\x83\x86"] {
        let mut slow = TcpStream::connect(server.address).await.unwrap();
        slow.write_all(&[hello, part].concat()).await.unwrap();
        assert!(matches!(soon(slow.read_to_end(&mut Vec::new())).await, Ok(_) | Err(_)));
    }
    server.connect().await.ask(&good()).await;
}

#[tokio::test]
async fn a_stopping_server_finishes_what_it_has_begun() {
    let mut server = Server::start(LIMITS).await;
    let client = server.connect().await;
    client.ask(&good()).await;
    let body = framed(&good());
    let (response, mut stream) =
        client.0.clone().ready().await.unwrap().send_request(post(METHOD), false).unwrap();
    stream.send_data(body.slice(..7), false).unwrap();
    // The server knows about the stream once a later one is answered.
    client.ask(&good()).await;
    server.stop();
    let refused = async {
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    soon(refused).await;
    stream.send_data(body.slice(7..), true).unwrap();
    let response = soon(response).await.unwrap();
    assert_eq!(response.status(), 200);
    drop((response, stream, client));
    server.stopped().await;
}

#[tokio::test]
async fn a_drain_does_not_wait_for_ever() {
    let config = Config { drain_timeout: SHORT, ..Config::default() };
    let mut server = Server::with(LIMITS, config).await;
    let client: Client = server.connect().await;
    client.ask(&good()).await;
    let (_response, mut stream) =
        client.0.clone().ready().await.unwrap().send_request(post(METHOD), false).unwrap();
    stream.send_data(framed(&good()).slice(..7), false).unwrap();
    client.ask(&good()).await;
    server.stop();
    server.stopped().await;
}
