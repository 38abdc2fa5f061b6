//! Broken, slow or hostile clients. The service stays up, and an honest client is served.

use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::Request;
use tidegate_server::ListenerConfig;
use tidegate_wire::envoy::RateLimitRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{
    Client, METHOD, Server, brief, entry, frame, framed, post, refund, request, soon,
};

const LIMITS: &str = "policies: [{ name: p, key: [a], limits: [1000000/minute] }]";
const SHORT: Duration = Duration::from_secs(1);

fn good() -> RateLimitRequest {
    request([entry("a", "x")])
}

#[tokio::test]
async fn attack_01_no_message_is_answered_with_an_error_that_envoy_lets_pass() {
    let server = Server::start(LIMITS).await;
    let client = server.connect().await;
    let good_bytes = framed(&good());
    let zeros = vec![0; 70_000];
    for (body, expected, part) in [
        (Bytes::new(), "malformed", "0 bytes"),
        (Bytes::from_static(b"\0\0"), "malformed", "2 bytes"),
        (frame(0, b"\xff\xff\xff"), "malformed", "failed to decode"),
        (frame(7, &good_bytes[5..]), "malformed", "flag 7"),
        (good_bytes.slice(..good_bytes.len() - 1), "malformed", "expected one message, of"),
        ([&good_bytes[..], &good_bytes[..]].concat().into(), "malformed", "one message, of"),
        ([&good_bytes[..], &zeros[..]].concat().into(), "malformed", "70"),
        (Bytes::from_static(b"\0\xff\xff\xff\xff"), "too_large", "at most 1048576 bytes"),
        (frame(0, &vec![0; 1_048_577]), "too_large", "the message is too large"),
        (frame(0, &vec![0; 5_000_000]), "too_large", "the message is too large"),
    ] {
        let (reason, detail) = client.call(METHOD, body).await.denial();
        assert_eq!(reason, expected, "{detail}");
        assert!(detail.contains(part), "{detail}");
    }
    client.ask(&good()).await;
    assert_eq!((server.refused("malformed").await, server.refused("too_large").await), (7, 3));
    // Only a client that is configured to compress gets here.
    let compressed = client.call(METHOD, frame(1, &good_bytes[5..])).await.refusal();
    assert_eq!(compressed, (12, "the message is compressed: expected identity".to_owned()));
}

#[tokio::test]
async fn attack_01_values_of_any_length_are_counted() {
    let server = Server::start("policies: [{ name: p, key: [a], limits: [2/minute] }]").await;
    let client = server.connect().await;
    for length in [4_096, 4_097, 59 << 10, 1_000_000] {
        let long = request([entry("a", &"x".repeat(length))]);
        let codes = [client.ask(&long).await, client.ask(&long).await, client.ask(&long).await];
        assert_eq!(codes.map(|it| brief(&it).0), [true, true, false], "{length}");
        // Another value of the same length has its own counter.
        let other = request([entry("a", &format!("{}y", "x".repeat(length - 1)))]);
        assert!(brief(&client.ask(&other).await).0, "{length}");
    }
}

#[tokio::test]
async fn attack_01_large_messages_leave_room_for_small_ones() {
    let server = Server::start(LIMITS).await;
    let client = server.connect().await;
    let large = framed(&request([entry("a", &"x".repeat(1_000_000))]));
    let mut waiting = Vec::new();
    // More than fit into the budget, and none of them complete.
    for _ in 0..20 {
        let mut ready = client.0.clone().ready().await.unwrap();
        let (response, mut stream) = ready.send_request(post(METHOD), false).unwrap();
        stream.send_data(large.slice(..large.len() - 1), false).unwrap();
        waiting.push((response, stream));
    }
    assert!(brief(&client.ask(&good()).await).0);
    for (_, stream) in &mut waiting {
        stream.send_data(large.slice(large.len() - 1..), true).unwrap();
    }
    // All are answered, whichever of them found no room.
    for (response, _) in waiting {
        let (head, mut body) = soon(response).await.unwrap().into_parts();
        assert_eq!(head.status, 200);
        while let Some(data) = soon(body.data()).await {
            data.unwrap();
        }
        assert_eq!(soon(body.trailers()).await.unwrap().unwrap()["grpc-status"], "0");
    }
    assert!(server.refused("overload").await >= 4);
}

#[tokio::test]
async fn attack_01_what_envoy_says_of_a_trace_is_not_too_long() {
    let server = Server::start(LIMITS).await;
    let client = server.connect().await;
    let mut head = post(METHOD);
    head.headers_mut().insert("tracestate", "x".repeat(60 << 10).parse().unwrap());
    assert_eq!(client.send(head, framed(&good())).await.unwrap().code(), 0);
}

#[tokio::test]
async fn attack_01_clients_that_hang_up_do_not_end_envoys_connection() {
    let server = Server::start(LIMITS).await;
    let client = server.connect().await;
    // As many as may come in one go when the server is busy.
    for _ in 0..150 {
        let mut ready = soon(client.0.clone().ready()).await.unwrap();
        let (_, mut stream) = ready.send_request(post(METHOD), false).unwrap();
        stream.send_data(framed(&good()), true).unwrap();
        stream.send_reset(Reason::CANCEL);
    }
    client.ask(&good()).await;
}

#[tokio::test]
async fn attack_16_nothing_is_given_back_without_the_right_to() {
    let server = Server::with(LIMITS, ListenerConfig::default()).await;
    let client = server.connect().await;
    let (reason, detail) = client.refused(&request([refund(entry("a", "x"), 1)])).await;
    assert_eq!(reason, "forbidden");
    assert!(detail.ends_with("expected serve --allow grpc:refund"), "{detail}");
    assert_eq!(server.refused("forbidden").await, 1);
}

#[tokio::test]
async fn a_client_without_a_call_makes_way_and_is_told_so() {
    let server =
        Server::with(LIMITS, ListenerConfig { max_connections: 2, ..ListenerConfig::default() })
            .await;
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
async fn attack_22_a_flood_of_control_frames_ends_the_connection() {
    let server = Server::start(LIMITS).await;
    let (mut read, mut write) = TcpStream::connect(server.address).await.unwrap().into_split();
    write.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let reading = tokio::spawn(async move {
        let mut sink = [0; 4_096];
        while let Ok(1..) = read.read(&mut sink).await {}
    });
    let (mut sent, pings) = (0_usize, b"\0\0\x08\x06\0\0\0\0\x0012345678".repeat(100));
    let flooding = async {
        while write.write_all(&pings).await.is_ok() {
            sent += 100;
            tokio::task::yield_now().await;
        }
    };
    soon(flooding).await;
    soon(reading).await.unwrap();
    assert!(sent < 100_000, "{sent}");
    server.ask(&good()).await;
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
        // A reset also counts as closed.
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
    head.headers_mut().insert("x-large", "x".repeat(200_000).parse().unwrap());
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
    let config = ListenerConfig {
        header_timeout: SHORT,
        body_timeout: SHORT,
        idle_timeout: SHORT * 3,
        ..ListenerConfig::default()
    };
    let server = Server::with(LIMITS, config).await;
    // Sends nothing at all, or nothing but the HTTP/2 preface.
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
    let (head, mut body) = soon(response).await.unwrap().into_parts();
    assert_eq!(head.status, 200);
    let data = soon(body.data()).await.unwrap().unwrap();
    assert!(data.windows(21).any(|part| part == b"no decision within 1s"), "{data:?}");
    // Is idle: a GOAWAY announces the end of the connection, and the client can open another.
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
    let config = ListenerConfig { header_timeout: SHORT, ..ListenerConfig::default() };
    let server = Server::with(LIMITS, config).await;
    let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    // Part of a frame; a whole frame whose head is to be continued.
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
    let config = ListenerConfig { drain_timeout: SHORT, ..ListenerConfig::default() };
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
