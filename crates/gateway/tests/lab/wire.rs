//! Sends a request exactly as it is spelled, over HTTP/1 or HTTP/2, and returns the body of the answer.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::request::{Field, Request, find};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// The body of the response. Empty if there is no response, which means that the request was not served.
pub(crate) async fn ask(address: SocketAddr, protocol: Protocol, request: &Request) -> Vec<u8> {
    let answer = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        match protocol {
            Protocol::Http1 => over_http1(&mut stream, request).await,
            Protocol::Http2 => over_http2(&mut stream, request).await,
        }
    };
    timeout(PATIENCE, answer).await.ok().and_then(Result::ok).unwrap_or_default()
}

async fn over_http1(stream: &mut TcpStream, request: &Request) -> io::Result<Vec<u8>> {
    stream.write_all(&request.bytes()).await?;
    let mut received = Vec::new();
    loop {
        let is_over = stream.read_buf(&mut received).await? == 0;
        while let Some(end) = find(&received, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
            if head.starts_with("http/1.1 1") {
                // An informational response: the real one follows.
                received.drain(..end + 4);
                continue;
            }
            match body(&head, &received[end + 4..], is_over) {
                Some(body) => return Ok(body),
                None if request.method == b"HEAD" => return Ok(Vec::new()),
                None => break,
            }
        }
        if is_over {
            return Ok(Vec::new());
        }
    }
}

/// The body, once it is complete.
fn body(head: &str, received: &[u8], is_over: bool) -> Option<Vec<u8>> {
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if field("transfer-encoding:") == Some("chunked") {
        return chunks(received);
    }
    match field("content-length:").and_then(|length| length.parse::<usize>().ok()) {
        Some(length) => received.get(..length).map(<[u8]>::to_vec),
        None => is_over.then(|| received.to_vec()),
    }
}

fn chunks(mut received: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = find(received, b"\r\n")?;
        let length = std::str::from_utf8(&received[..end]).ok()?;
        let length = usize::from_str_radix(length, 16).ok()?;
        if length == 0 {
            return Some(body);
        }
        body.extend(received.get(end + 2..end + 2 + length)?);
        received = received.get(end + 4 + length..)?;
    }
}

/// Writes frames without a library, which would refuse to send most of the interesting requests.
async fn over_http2(stream: &mut TcpStream, request: &Request) -> io::Result<Vec<u8>> {
    let has_trailers = !request.trailers.is_empty();
    let end = if has_trailers { 0 } else { END_STREAM };
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    bytes.extend(frame(HEADERS, END_HEADERS | end, 1, &head(request)));
    if has_trailers {
        let trailers = request.trailers.iter().flat_map(literal).collect::<Vec<_>>();
        bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers));
    }
    stream.write_all(&bytes).await?;
    let mut body = Vec::new();
    loop {
        let mut start = [0; 9];
        stream.read_exact(&mut start).await?;
        let [a, b, c, kind, flags, ..] = start;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload).await?;
        match kind {
            SETTINGS if flags & ACK == 0 => {
                stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await?;
            }
            DATA => body.extend(payload),
            RST_STREAM | GOAWAY => return Ok(Vec::new()),
            _ => {}
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            return Ok(body);
        }
    }
}

/// The fields of a request in HTTP/2: names in lower case, and the host as `:authority`.
fn head(request: &Request) -> Vec<u8> {
    let pseudo = |name: &str, value: &[u8]| (name.into(), value.to_vec());
    let mut fields = vec![
        pseudo(":method", &request.method),
        pseudo(":scheme", b"http"),
        pseudo(":path", &request.target),
    ];
    let mut others = request.fields.clone();
    if let Some(host) = others.iter().position(|(name, _)| name.eq_ignore_ascii_case(b"host")) {
        fields.push((b":authority".to_vec(), others.remove(host).1));
    }
    fields.extend(others.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)));
    fields.iter().flat_map(literal).collect()
}

/// A field as a literal without indexing.
fn literal((name, value): &Field) -> Vec<u8> {
    let value = value.strip_prefix(b" ").unwrap_or(value);
    [&[0][..], &length(name), name, &length(value), value].concat()
}

fn length(text: &[u8]) -> Vec<u8> {
    match text.len() {
        short @ 0..127 => vec![short as u8],
        long => {
            let mut rest = long - 127;
            let mut bytes = vec![127];
            while rest >= 128 {
                bytes.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            bytes.push(rest as u8);
            bytes
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// A request that takes longer was not served.
const PATIENCE: Duration = Duration::from_secs(5);
