//! Request smuggling: a request that two programs could read differently is refused, or reaches the service
//! in one form only. The service records every byte.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod corpus;
#[path = "../support/mod.rs"]
mod support;

use corpus::Fate::{Refused, Seen};
use corpus::{CORPUS, Fate};
use support::Front;
use support::recorder::Recorder;

#[tokio::test]
async fn every_request_is_refused_or_understood_in_one_way() {
    assert!(CORPUS.len() >= 40);
    let service = Recorder::start().await;
    let front = Front::to(service.address).await;
    for (name, request, fate) in CORPUS {
        service.take();
        let mut client = front.connect().await;
        client.send(request).await;
        match fate {
            Refused(statuses) => {
                let reply = client.reply_or_end().await;
                let status = reply.as_ref().map(|reply| reply.status);
                assert!(status.is_some_and(|it| statuses.contains(&it)), "{name}: {status:?}");
            }
            Seen(lines, _) => {
                for line in *lines {
                    let reply = client.reply().await;
                    assert_eq!((reply.status, reply.text().as_str()), (200, "ok"), "{name} {line}");
                }
            }
        }
        witness(name, fate, &service.take());
    }
}

/// Checks the bytes that the service has received.
fn witness(name: &str, fate: &Fate, heard: &[u8]) {
    let heard = String::from_utf8_lossy(heard).into_owned();
    assert!(!heard.contains("SMUGGLED"), "{name}: {heard}");
    let seen: Vec<_> = heard.lines().filter(|line| line.contains(" HTTP/1.")).collect();
    match fate {
        // The beginning of a broken body may already have been forwarded; the request is then never finished.
        Refused(_) => {
            let is_finished = heard.contains("0\r\n\r\n") || heard.contains("content-length");
            assert!(seen.is_empty() || !is_finished, "{name}: {heard}");
        }
        Seen(lines, bodies) => {
            assert_eq!(seen, *lines, "{name}: {heard}");
            let ends: String = heard
                .split("\r\n\r\n")
                .flat_map(|part| part.split(" HTTP/1.1\r\n"))
                .collect::<Vec<_>>()
                .join("\r\n\r\n");
            assert!(ends.contains(bodies), "{name}: {heard}");
        }
    }
}

/// The same requests in small portions: the result does not depend on where they are cut.
#[tokio::test]
async fn the_way_a_request_is_split_changes_nothing() {
    let service = Recorder::start().await;
    let front = Front::to(service.address).await;
    for (name, request, fate) in CORPUS.iter().take(36) {
        let Refused(statuses) = fate else { continue };
        service.take();
        let mut client = front.connect().await;
        for bytes in request.as_bytes().chunks(7) {
            if !client.try_send(bytes).await {
                break;
            }
            tokio::task::yield_now().await;
        }
        // After an early refusal, the connection may be reset before the client has read the response.
        if let Some(reply) = client.reply_or_end().await {
            assert!(statuses.contains(&reply.status), "{name}: {}", reply.status);
        }
        witness(name, fate, &service.take());
    }
}

/// An ambiguous response is not forwarded.
#[tokio::test]
async fn responses_are_read_as_strictly() {
    use support::recorder::Manner;
    for response in [
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nx : y\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: y\r\n folded: z\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "\x16\x03\x01\x02\x00\r\n\r\n",
    ] {
        let service = Recorder::with(vec![Manner::Answer(response.as_bytes().to_vec())]).await;
        let front = Front::to(service.address).await;
        front.get("/").await.problem(502);
    }
    // Surplus bytes after a response are never taken for the next response.
    let twice = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
    let service = Recorder::with(vec![Manner::Answer(twice.to_vec())]).await;
    let front = Front::to(service.address).await;
    let mut client = front.connect().await;
    for _ in 0..5 {
        assert_eq!(client.get("/").await.text(), "ok");
    }
    assert_eq!(service.connections(), 5);
}
