//! Fuzzes the response parser, and compares it with hyper's client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::float_arithmetic,
    reason = "a property panics, and compares roughly"
)]

use std::future::poll_fn;
use std::pin::Pin;

use bytes::BytesMut;
use http::{Method, Request, StatusCode};
use hyper::body::Body as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio::runtime::Runtime;

use super::decoder::Http1BodyPart;
use super::head::UpstreamResponseHead;
use crate::upstream::UpstreamFailure;

/// A response that both this parser and hyper accept has the same status and body for both, and is complete
/// for both or for neither. The result does not depend on the portions in which it arrives.
pub(crate) fn response(bytes: &[u8]) {
    let own = read(bytes, bytes.len().max(1));
    let again = read(bytes, 1 + bytes.len() % 13);
    assert_eq!(own.as_ref().ok(), again.as_ref().ok(), "{own:?} as a whole, {again:?} in portions");
    let Ok(Some(own)) = own else { return };
    thread_local! {
        static RUNTIME: Runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    }
    let seen = RUNTIME.with(|runtime| runtime.block_on(show_hyper(bytes)));
    if let Some(seen) = seen {
        assert_eq!(seen.status, own.status);
        assert_eq!(seen.body, own.body, "hyper reads another body, or another end");
    }
}

/// A response whose head has arrived.
#[derive(Debug, PartialEq, Eq)]
struct FuzzResponse {
    status: StatusCode,
    /// `None` if the body is incomplete.
    body: Option<Vec<u8>>,
}

fn read(bytes: &[u8], portion: usize) -> Result<Option<FuzzResponse>, UpstreamFailure> {
    let mut portions = bytes.chunks(portion);
    let mut unread = BytesMut::new();
    let head = loop {
        match UpstreamResponseHead::take(&mut unread, &Method::GET)? {
            Some(head) if head.status == StatusCode::SWITCHING_PROTOCOLS => return Ok(None),
            Some(head) if head.status.is_informational() => {}
            Some(head) => break head,
            None => match portions.next() {
                Some(portion) => unread.extend_from_slice(portion),
                None => return Ok(None),
            },
        }
    };
    let (mut decoder, mut body) = (head.decoder, Vec::new());
    loop {
        match decoder.take(&mut unread)? {
            Http1BodyPart::Data(data) => body.extend_from_slice(&data),
            Http1BodyPart::Trailers(_) => {}
            Http1BodyPart::End => {
                return Ok(Some(FuzzResponse { status: head.status, body: Some(body) }));
            }
            Http1BodyPart::More => match portions.next() {
                Some(portion) => unread.extend_from_slice(portion),
                None => {
                    // Without a length or chunks, the body ends with the connection.
                    let is_end = matches!(decoder, super::decoder::Http1BodyDecoder::ToTheEnd);
                    let body = is_end.then_some(body);
                    return Ok(Some(FuzzResponse { status: head.status, body }));
                }
            },
        }
    }
}

/// The response as hyper's client reads it; `None` if it does not accept the head.
async fn show_hyper(bytes: &[u8]) -> Option<FuzzResponse> {
    let (client, service) = duplex(1 << 10);
    let mut builder = http1::Builder::new();
    builder.max_headers(super::head::MAX_FIELDS);
    let (mut sender, connection) =
        builder.handshake::<_, String>(TokioIo::new(client)).await.ok()?;
    let (mut reader, mut writer) = split(service);
    let serve = async {
        // Wait for the request: hyper does not accept a response before it.
        let _ = reader.read(&mut [0; 1]).await;
        // hyper may have closed the connection by now.
        let _ = writer.write_all(bytes).await;
        let _ = writer.shutdown().await;
        let _ = reader.read_to_end(&mut Vec::new()).await;
    };
    let ask = async move {
        let response = sender.send_request(Request::new(String::new())).await.ok()?;
        let (status, mut body) = (response.status(), response.into_body());
        let mut data = Vec::new();
        loop {
            match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                Some(Ok(frame)) => data.extend(frame.into_data().unwrap_or_default()),
                Some(Err(_)) => return Some(FuzzResponse { status, body: None }),
                None => return Some(FuzzResponse { status, body: Some(data) }),
            }
        }
    };
    tokio::join!(connection, serve, ask).2
}
