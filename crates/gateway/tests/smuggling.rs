//! Requests that one program reads in one way and another in another: each is refused, or reaches the
//! service in one way only. A service that writes down every byte is the witness.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use support::Front;
use support::recorder::Recorder;

/// What has to become of a request.
enum Fate {
    /// Answered with one of these, and never seen by the service.
    Refused(&'static [u16]),
    /// Seen by the service as these request lines, and nothing else, with these bodies.
    Seen(&'static [&'static str], &'static str),
}

use Fate::{Refused, Seen};

const BAD: Fate = Refused(&[400]);
const GET_A: Fate = Seen(&["GET /a HTTP/1.1"], "");

/// Requests as they are sent. In all of them, `SMUGGLED` stands where a request would stand that
/// somebody else might see.
const CORPUS: &[(&str, &str, Fate)] = &[
    // Where a body ends.
    (
        "length and chunks",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "chunks and length",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "two lengths",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 38\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "two lengths, the other order",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 38\r\nContent-Length: 0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "the same length twice",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        BAD,
    ),
    ("a list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello", BAD),
    ("a length with a sign", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", BAD),
    ("a negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nhello", BAD),
    ("a hexadecimal length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello", BAD),
    (
        "a length with a space",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\nhello",
        BAD,
    ),
    (
        "an empty length",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a length beyond all numbers",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
        BAD,
    ),
    (
        "another coding",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "identity and a length",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
        BAD,
    ),
    (
        "two codings",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "chunked is not the last",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "chunked twice",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "chunked, nearly",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "chunked in quotes",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "chunked behind a vertical tab",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a space before the colon",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a tab before the colon",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 5\r\n\r\nhello",
        BAD,
    ),
    (
        "chunks in HTTP/1.0",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a folded coding",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "chunks as they should be",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n5;x=\"y\"\r\nhello\r\n0\r\n\r\n",
        Seen(&["POST /a HTTP/1.1"], "5\r\nhello\r\n0\r\n\r\n"),
    ),
    // Chunks.
    (
        "a chunk that ends with a line feed",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a chunk with a prefix",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "a chunk with a sign",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "a chunk beyond all numbers",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a chunk longer than it says",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a line feed in an extension",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nGET /SMUGGLED\r\nhello\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "a line feed in a trailer",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx: y\nGET /SMUGGLED HTTP/1.1\r\n\r\n",
        BAD,
    ),
    // Lines.
    ("line feeds alone", "GET /a HTTP/1.1\nHost: a\n\n", BAD),
    ("a line feed in between", "GET /a HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", BAD),
    ("a carriage return alone", "GET /a HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", BAD),
    ("a folded line", "GET /a HTTP/1.1\r\nHost: a\r\nX: y\r\n folded: z\r\n\r\n", BAD),
    ("a field without a colon", "GET /a HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", BAD),
    ("a field without a name", "GET /a HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n", BAD),
    ("a field that begins with a space", "GET /a HTTP/1.1\r\n Host: a\r\n\r\n", BAD),
    ("a NUL in a field", "GET /a HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", BAD),
    ("a control character in a name", "GET /a HTTP/1.1\r\nHost: a\r\nX\x01: y\r\n\r\n", BAD),
    ("empty lines before it", "\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    // The first line.
    ("a tab instead of a space", "GET\t/a HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("two spaces", "GET  /a HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("a space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("a fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    ("HTTP/0.9", "GET /a\r\n\r\n", BAD),
    ("another version", "GET /a HTTP/1.2\r\nHost: a\r\n\r\n", BAD),
    ("another protocol", "GET /a HTCPCP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("no path", "GET a HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("an asterisk", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("a tunnel", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", Refused(&[405])),
    ("bytes beyond ASCII", "GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    // Hosts.
    ("no host", "GET /a HTTP/1.1\r\n\r\n", BAD),
    ("two hosts", "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", BAD),
    ("the same host twice", "GET /a HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", BAD),
    ("a host that is a list", "GET /a HTTP/1.1\r\nHost: a, b\r\n\r\n", BAD),
    ("a host with a path", "GET /a HTTP/1.1\r\nHost: a/b\r\n\r\n", BAD),
    ("a user in the host", "GET /a HTTP/1.1\r\nHost: user@a\r\n\r\n", BAD),
    ("a target with another host", "GET http://b/a HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("a target with its host", "GET http://a/a HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    // Paths.
    ("an encoded slash", "GET /a%2fSMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("an encoded backslash", "GET /a%5c..%5cSMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("an encoded NUL", "GET /a%00 HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("an encoded line break", "GET /a%0d%0aX:%20y HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("half an escape", "GET /a% HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("dots", "GET /x/../a HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    ("dots in disguise", "GET /x/%2e%2E/a HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    ("more dots than there are segments", "GET /../../a HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    ("slashes", "GET //a HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    ("letters in disguise", "GET /%61 HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    // Fields of the connection.
    (
        "a field that Connection names",
        "GET /a HTTP/1.1\r\nHost: a\r\nConnection: x-a\r\nX-A: SMUGGLED\r\n\r\n",
        GET_A,
    ),
    (
        "a length that Connection names",
        "POST /a HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: 5\r\n\r\nhello",
        Seen(&["POST /a HTTP/1.1"], "hello"),
    ),
    (
        "an upgrade with a body",
        "POST /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: SMUGGLED\r\nContent-Length: 5\r\n\r\nhello",
        Seen(&["POST /a HTTP/1.1"], "hello"),
    ),
    (
        "a length and a request behind it",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\nhello\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
        Seen(&["POST /a HTTP/1.1", "GET /b HTTP/1.1"], "hello"),
    ),
];

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

/// Whether the service saw what it should have seen.
fn witness(name: &str, fate: &Fate, heard: &[u8]) {
    let heard = String::from_utf8_lossy(heard).into_owned();
    assert!(!heard.contains("SMUGGLED"), "{name}: {heard}");
    let seen: Vec<_> = heard.lines().filter(|line| line.contains(" HTTP/1.")).collect();
    match fate {
        // The beginning of a body that turns out to be broken may be on its way already; the request
        // is then never finished.
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

/// The same requests in small portions: where they are cut changes nothing.
#[tokio::test]
async fn portions_change_nothing() {
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
        // Who is refused early may find the connection reset before the answer is read.
        if let Some(reply) = client.reply_or_end().await {
            assert!(statuses.contains(&reply.status), "{name}: {}", reply.status);
        }
        witness(name, fate, &service.take());
    }
}

/// A response that could be read in two ways is no answer either.
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
    // What comes behind a response is never the answer to the next request.
    let twice = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
    let service = Recorder::with(vec![Manner::Answer(twice.to_vec())]).await;
    let front = Front::to(service.address).await;
    let mut client = front.connect().await;
    for _ in 0..5 {
        assert_eq!(client.get("/").await.text(), "ok");
    }
    assert_eq!(service.connections(), 5);
}
