//! The property that the framing follower and hyper see the same requests on a connection.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::float_arithmetic,
    reason = "a property panics, and compares roughly"
)]

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};

use super::{FramingState, InboundFraming};

/// In the bytes that the follower passes on, hyper sees the same requests with the same bodies, or fewer:
/// hyper can refuse more than the follower does, and then closes the connection. A request that the
/// follower refuses never reaches hyper as one. None of this depends on the sizes of reads.
pub(crate) fn http1(bytes: &[u8]) {
    for is_proxy in [false, true] {
        let FollowedConnection { passed, requests } = follow(bytes, is_proxy);
        for portion in [bytes.len().max(1), 1 + bytes.len() % 17] {
            assert_eq!(passed, follow_in_portions(bytes, portion, is_proxy), "in {portion}s");
        }
        let seen = with_runtime(|runtime| runtime.block_on(show_hyper(&passed)));
        assert!(seen.len() <= requests.len(), "hyper sees {seen:?}, and we see {requests:?}");
        for (seen, own) in seen.iter().zip(&requests) {
            assert!(own.is(seen), "hyper sees {seen:?}, and we see {own:?}");
        }
    }
}

/// The same for HTTP/2: the state of the follower does not depend on the sizes of reads.
pub(crate) fn http2(bytes: &[u8]) {
    let (mut whole, mut single) = (InboundFraming::http2(), InboundFraming::http2());
    assert_eq!(whole.inspect(bytes).pass, bytes.len());
    for byte in bytes {
        single.inspect(&[*byte]);
    }
    let state = |framing: &InboundFraming| (framing.unfinished(), framing.last_stream());
    assert_eq!(state(&whole), state(&single));
}

/// A connection as the follower sees it.
struct FollowedConnection {
    /// The bytes that hyper gets.
    passed: Vec<u8>,
    requests: Vec<FollowedRequest>,
}

/// A request as the follower sees it.
#[derive(Debug)]
struct FollowedRequest {
    method: String,
    target: String,
    /// `None` if the body is incomplete or broken.
    body: Option<Vec<u8>>,
}

/// A request as hyper sees it.
#[derive(Debug)]
struct HyperRequest {
    method: Method,
    /// `None` for a target that is not a path.
    target: Option<String>,
    body: Option<Vec<u8>>,
}

impl FollowedRequest {
    fn read(head: &[u8]) -> Self {
        let head = String::from_utf8_lossy(head);
        let mut words = head.trim_start_matches(['\r', '\n']).split(' ').map(str::to_owned);
        let mut next = || words.next().unwrap_or_default();
        Self { method: next(), target: next(), body: None }
    }

    fn is(&self, seen: &HyperRequest) -> bool {
        // hyper drops the fragment.
        let target = self.target.split('#').next();
        self.method == seen.method.as_str()
            && (seen.target.is_none() || seen.target.as_deref() == target)
            // hyper can close in the middle of a body, but completes none that the follower did not.
            && (seen.body.is_none() || seen.body == self.body)
    }
}

/// Follows a connection byte by byte, to see where requests end.
fn follow(bytes: &[u8], is_proxy: bool) -> FollowedConnection {
    let mut framing =
        if is_proxy { InboundFraming::http1_proxy() } else { InboundFraming::http1() };
    let (mut passed, mut requests, mut start) = (Vec::new(), Vec::<FollowedRequest>::new(), 0);
    let mut is_chunked = false;
    for (at, byte) in bytes.iter().enumerate() {
        let was_head = matches!(framing.state, FramingState::Head);
        let verdict = framing.inspect(&[*byte]);
        if verdict.pass == 0 {
            break;
        }
        let end = at + 1;
        passed.push(if verdict.is_corrupted { 0 } else { *byte });
        if framing.is_broken() {
            break;
        }
        if was_head && framing.head.is_empty() {
            requests.push(FollowedRequest::read(&bytes[start..end]));
            start = end;
            is_chunked = matches!(framing.state, FramingState::Chunked(_));
            // As if the request was answered without a switch of the protocol.
            framing.resume(false);
        }
        if framing.is_between_requests()
            && let Some(request) = requests.last_mut().filter(|it| it.body.is_none())
        {
            let body = &bytes[start..end];
            request.body = Some(if is_chunked { without_chunks(body) } else { body.to_vec() });
            start = end;
        }
    }
    add_end(&mut framing, &mut passed);
    FollowedConnection { passed, requests }
}

fn follow_in_portions(bytes: &[u8], portion: usize, is_proxy: bool) -> Vec<u8> {
    let mut framing =
        if is_proxy { InboundFraming::http1_proxy() } else { InboundFraming::http1() };
    let mut passed = Vec::new();
    for mut portion in bytes.chunks(portion).map(<[u8]>::to_vec) {
        while !portion.is_empty() && !framing.is_broken() {
            let mut buf = tokio::io::ReadBuf::new(&mut portion);
            buf.set_filled(buf.capacity());
            let kept = framing.follow(&mut buf, 0);
            passed.extend_from_slice(buf.filled());
            framing.resume(false);
            portion = kept;
        }
    }
    add_end(&mut framing, &mut passed);
    passed
}

fn add_end(framing: &mut InboundFraming, passed: &mut Vec<u8>) {
    let mut room = [0; 8];
    let mut buf = tokio::io::ReadBuf::new(&mut room);
    framing.end(&mut buf);
    passed.extend_from_slice(buf.filled());
}

/// The data of a well-formed chunked body.
fn without_chunks(mut body: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    loop {
        let line = body.iter().position(|byte| *byte == b'\n').unwrap_or_default();
        let digits = body.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let digits = std::str::from_utf8(&body[..digits]).unwrap_or_default();
        let size = usize::from_str_radix(digits, 16).unwrap_or_default();
        if size == 0 {
            return data;
        }
        data.extend_from_slice(&body[line + 1..line + 1 + size]);
        body = &body[line + 1 + size + 2..];
    }
}

/// The requests that hyper sees, configured as in our listeners.
async fn show_hyper(bytes: &[u8]) -> Vec<HyperRequest> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let (head, body) = request.into_parts();
            let target = head.uri.path_and_query().filter(|_| head.uri.authority().is_none());
            let target = target.map(|it| it.as_str().to_owned()).filter(|it| it.starts_with('/'));
            seen.borrow_mut().push(HyperRequest { method: head.method, target, body: None });
            let index = seen.borrow().len() - 1;
            if let Ok(body) = body.collect().await {
                seen.borrow_mut()[index].body = Some(body.to_bytes().to_vec());
            }
            let mut response = http::Response::new(Empty::<Bytes>::new());
            // Not a success, which after a CONNECT would end HTTP on the connection.
            *response.status_mut() = StatusCode::NOT_FOUND;
            Ok::<_, Infallible>(response)
        }
    });
    let (client, server) = duplex(1 << 10);
    let mut builder = http1::Builder::new();
    builder.half_close(true).header_read_timeout(None).max_buf_size(80 << 10);
    let connection = builder.serve_connection(TokioIo::new(server), service);
    let (mut reader, mut writer) = split(client);
    let send = async {
        // hyper may have closed the connection by now.
        let _ = writer.write_all(bytes).await;
        let _ = writer.shutdown().await;
    };
    let mut answers = Vec::new();
    let receive = reader.read_to_end(&mut answers);
    let _ = tokio::join!(connection, send, receive);
    seen.take()
}

/// Uses one runtime per thread: building one takes longer than a connection.
fn with_runtime<T>(run: impl FnOnce(&tokio::runtime::Runtime) -> T) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    }
    RUNTIME.with(run)
}
