//! Services that die, hang or send invalid responses, and slow clients.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use support::echo::Echo;
use support::recorder::{Manner, OK, Recorder};
use support::{Client, Front, GENEROUS, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

async fn front(upstream: SocketAddr, fields: &str) -> Front {
    Front::start(&format!(
        "gateway: {{ upstreams: {{ up: {{ urls: http://{upstream}, {fields} }} }} }}\n{GENEROUS}"
    ))
    .await
}

#[tokio::test]
async fn a_service_that_is_not_there_is_a_bad_gateway() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let reply = Front::to(gone).await.get("/").await;
    let detail = reply.problem(502);
    assert_eq!(detail, "up: cannot connect", "and nobody is told where it should be");
}

#[tokio::test]
async fn a_service_that_closes_or_resets_before_it_answers_is_a_bad_gateway() {
    for manner in [Manner::Close, Manner::AnswerAndReset(Vec::new())] {
        let service = Recorder::with(vec![manner]).await;
        let front = Front::to(service.address).await;
        let mut client = front.connect().await;
        client.get("/").await.problem(502);
        assert_eq!(service.connections(), 1, "the request may have had an effect");
        client.get("/").await.problem(502);
    }
}

#[tokio::test]
async fn half_a_response_is_never_taken_for_a_whole() {
    for response in [
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf of it",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n64\r\nhalf of it",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\na\r\nhalf of it\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\na\r\nhalf of it\r\n0\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\na\r\nhalf of it\r\nnonsense\r\n",
    ] {
        for manner in [Manner::AnswerAndClose as fn(_) -> _, Manner::AnswerAndReset] {
            let service = Recorder::with(vec![manner(response.as_bytes().to_vec())]).await;
            let front = Front::to(service.address).await;
            let mut client = front.connect().await;
            client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
            // The head may have been sent before the fault was noticed.
            if let Some(reply) = client.reply_or_end().await {
                assert!(reply.status == 502 || !reply.is_whole, "{response}");
            }
            assert!(client.is_closed().await || response.is_empty());
        }
    }
    let broken = "HTTP/1.1 200 OK\r\ncontent-le";
    let service = Recorder::with(vec![Manner::AnswerAndClose(broken.into())]).await;
    assert!(
        Front::to(service.address).await.get("/").await.problem(502).contains("head is incomplete")
    );
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_its_connection() {
    let response = b"HTTP/1.1 200 OK\r\nx: y\r\n\r\nto the end".to_vec();
    let service = Recorder::with(vec![Manner::AnswerAndClose(response)]).await;
    let front = Front::to(service.address).await;
    let mut client = front.connect().await;
    for _ in 0..3 {
        let reply = client.get("/").await;
        assert_eq!((reply.text().as_str(), reply.is_whole), ("to the end", true));
    }
}

#[tokio::test]
async fn a_service_that_hangs_is_a_gateway_timeout() {
    let service = Recorder::with(vec![Manner::Hang]).await;
    let front = front(service.address, "timeouts: { response: 200ms }").await;
    let mut client = front.connect().await;
    assert!(client.get("/").await.problem(504).contains("in time"));
    // In the middle of a body, there is no way to send an error.
    let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec();
    service.behave(vec![Manner::Answer(half)]);
    let front = self::front(service.address, "timeouts: { idle: 200ms }").await;
    let mut client = front.connect().await;
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(!client.reply().await.is_whole);
}

#[tokio::test]
async fn a_service_that_does_not_take_a_body_is_a_gateway_timeout() {
    let service = Recorder::with(vec![Manner::Ignore]).await;
    let front = front(service.address, "timeouts: { idle: 300ms, response: 300ms }").await;
    let mut client = front.connect().await;
    let size = 64 << 20;
    client.send(&format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {size}\r\n\r\n")).await;
    let chunk = vec![b'x'; 1 << 20];
    let sending = async {
        for _ in 0..64 {
            if !client.try_send(&chunk).await {
                break;
            }
        }
    };
    // The gateway stops reading when the service does, so not all of the body fits into buffers.
    let _ = tokio::time::timeout(Duration::from_secs(5), sending).await;
    if let Some(reply) = client.reply_or_end().await {
        reply.problem(504);
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced() {
    let once = Manner::AnswerAndClose(OK.to_vec());
    let service = Recorder::with(vec![once]).await;
    let front = Front::to(service.address).await;
    let mut client = front.connect().await;
    for _ in 0..20 {
        assert_eq!(client.get("/").await.status, 200);
        client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi").await;
        assert_eq!(client.reply().await.status, 200);
    }
}

/// The service closes a reused connection when the next request arrives: the request may have been
/// executed.
#[tokio::test]
async fn only_what_changes_nothing_is_sent_again() {
    async fn closing_on_the_second() -> (SocketAddr, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let mut heads = Vec::new();
            for round in 0..2 {
                let Ok((mut stream, _)) = listener.accept().await else { break };
                for request in 0..2 {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read_u8().await {
                            Ok(byte) => head.push(byte),
                            Err(_) => return heads,
                        }
                    }
                    let line = String::from_utf8(head).unwrap();
                    heads.push(line.lines().next().unwrap().to_owned());
                    if round == 0 && request == 1 {
                        break;
                    }
                    stream.write_all(OK).await.unwrap();
                    if round == 1 {
                        return heads;
                    }
                }
            }
            heads
        });
        (address, task)
    }
    let (address, heads) = closing_on_the_second().await;
    let front = Front::to(address).await;
    let mut client = front.connect().await;
    assert_eq!(client.get("/1").await.status, 200);
    assert_eq!(client.get("/2").await.status, 200);
    let expected = ["GET /1 HTTP/1.1", "GET /2 HTTP/1.1", "GET /2 HTTP/1.1"];
    assert_eq!(soon(heads).await.unwrap(), expected);

    let (address, heads) = closing_on_the_second().await;
    let front = Front::to(address).await;
    let mut client = front.connect().await;
    assert_eq!(client.get("/1").await.status, 200);
    client.send("POST /2 HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").await;
    client.reply().await.problem(502);
    heads.abort();
}

#[tokio::test]
async fn an_early_answer_is_passed_on_while_the_body_is_still_coming() {
    let early = b"HTTP/1.1 413 Too Large\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbig!";
    let service = Recorder::with(vec![Manner::AnswerAndClose(early.to_vec())]).await;
    let front = Front::to(service.address).await;
    let mut client = front.connect().await;
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\nsome").await;
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.text().as_str()), (413, "big!"));
}

#[tokio::test]
async fn a_client_that_breaks_off_does_not_finish_its_request() {
    let service = Recorder::with(vec![Manner::Hang]).await;
    let front = Front::to(service.address).await;
    for request in [
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        let mut client = front.connect().await;
        client.send(request).await;
        assert!(client.is_silent().await);
        drop(client);
        let heard = soon(async {
            loop {
                let heard = String::from_utf8(service.take()).unwrap();
                if heard.contains("half") {
                    return heard;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
        let (_, body) = heard.split_once("\r\n\r\n").unwrap();
        assert!(!body.contains("0\r\n\r\n"), "{heard}");
    }
}

#[tokio::test]
async fn bytes_that_come_one_by_one_are_enough() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let mut client = front.connect().await;
    let request = "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
                   5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n";
    for byte in request.as_bytes() {
        client.send_bytes(&[*byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.reply().await.text(), "hello!");
}

/// If a client does not read, the service has to wait, and the gateway uses no memory for it.
#[tokio::test]
async fn a_slow_reader_slows_the_service_down() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&sent);
    const SIZE: usize = 256 << 20;
    let service = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 4_096];
        let _ = stream.read(&mut head).await;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n");
        let _ = stream.write_all(head.as_bytes()).await;
        let chunk = vec![b'x'; 64 << 10];
        while stream.write_all(&chunk).await.is_ok() {
            counter.fetch_add(chunk.len(), std::sync::atomic::Ordering::SeqCst);
        }
    });
    let front = Front::to(address).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let stream = socket.connect(front.address).await.unwrap();
    let mut client = Client(tokio::io::BufStream::new(stream));
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let count = || sent.load(std::sync::atomic::Ordering::SeqCst);
    // Wait until no more bytes are transferred: the buffers on the way are full.
    let mut before = usize::MAX;
    while before != count() || before == 0 {
        before = count();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(before < 32 << 20, "{before} bytes for somebody who reads nothing");
    drop(client);
    service.abort();
}

#[tokio::test]
async fn the_number_of_requests_under_way_is_bounded() {
    let service = Recorder::with(vec![Manner::Hang]).await;
    let front = front(service.address, "max_requests: 1").await;
    let mut first = front.connect().await;
    first.send("GET /1 HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(first.is_silent().await);
    let reply = front.get("/2").await;
    assert!(reply.problem(503).contains("under way"));
    assert_eq!(reply.header("retry-after"), Some("1"));
}
