//! HTTP/2 with clients and services, and gRPC at the level of frames.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use support::echo::Echo;
use support::recorder::Recorder;
use support::{Front, GENEROUS, soon};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// A body of prepared parts.
#[derive(Default)]
struct Parts(VecDeque<Frame<Bytes>>);

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

/// A body that has no bytes and ends when its sender is dropped.
struct OpenBody(oneshot::Receiver<()>);

impl Body for OpenBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.0).poll(cx).map(|_| None)
    }
}

async fn connect<B>(address: SocketAddr) -> SendRequest<B>
where
    B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn send(
    sender: &mut SendRequest<Parts>,
    request: http::request::Builder,
    parts: Vec<Frame<Bytes>>,
) -> Response<Incoming> {
    sender.ready().await.unwrap();
    let request = request.body(Parts(parts.into())).unwrap();
    soon(sender.send_request(request)).await.unwrap()
}

async fn json(response: Response<Incoming>) -> Value {
    serde_json::from_slice(&response.collect().await.unwrap().to_bytes()).unwrap()
}

fn h2c(upstream: SocketAddr, policies: &str) -> String {
    format!("gateway: {{ upstreams: {{ up: h2c://{upstream} }} }}\n{policies}")
}

fn get(target: &str) -> http::request::Builder {
    Request::get(target)
}

#[tokio::test]
async fn http2_comes_in_and_http1_goes_out() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let mut sender = connect::<Parts>(front.address).await;
    let response =
        send(&mut sender, get("http://a.example/x/../y?z=1").header("x-a", "1"), vec![]).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.headers().contains_key("ratelimit"));
    let seen = json(response).await;
    assert_eq!((&seen["target"], &seen["version"]), (&"/y?z=1".into(), &"HTTP/1.1".into()));
    assert!(
        seen["headers"].as_array().unwrap().contains(&serde_json::json!(["host", "a.example"]))
    );
    let parts = vec![Frame::data(Bytes::from("hello ")), Frame::data(Bytes::from("world"))];
    let response = send(&mut sender, Request::post("http://a/echo"), parts).await;
    assert_eq!(response.collect().await.unwrap().to_bytes(), "hello world");
}

#[tokio::test]
async fn many_streams_share_a_connection_and_a_limit() {
    let echo = Echo::start().await;
    let front = Front::start(&format!(
        "gateway: {{ upstreams: {{ up: http://{} }} }}\n\
         policies: [{{ name: p, key: [ip], limits: [30/minute] }}]",
        echo.address
    ))
    .await;
    let sender = connect::<Parts>(front.address).await;
    let mut streams = Vec::new();
    for _ in 0..100 {
        let mut sender = sender.clone();
        streams.push(tokio::spawn(async move {
            send(&mut sender, get("http://a/"), vec![]).await.status().as_u16()
        }));
    }
    let mut allowed = 0;
    for stream in streams {
        allowed += usize::from(soon(stream).await.unwrap() == 200);
    }
    assert_eq!((allowed, echo.requests()), (30, 30));
}

#[tokio::test]
async fn attack_13_http2_is_refused_while_the_memory_for_waiting_data_is_used_up() {
    let echo = Echo::start().await;
    let text = format!("gateway: {{ upstreams: {{ up: http://{} }} }}\n{GENEROUS}", echo.address);
    // Room for the open uploads of four connections.
    let front = Front::with_memory(&text, 1 << 20).await;
    let upload = async || {
        let (end, open) = oneshot::channel();
        let mut sender = connect(front.address).await;
        let request = Request::post("http://a/echo").body(OpenBody(open)).unwrap();
        (soon(sender.send_request(request)).await.unwrap(), end, sender)
    };
    let mut uploads = Vec::new();
    for _ in 0..4 {
        uploads.push(upload().await);
        assert_eq!(uploads.last().unwrap().0.status(), StatusCode::OK);
    }
    let (refused, _, _) = upload().await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let problem = json(refused).await;
    assert_eq!(problem["detail"], "the gateway's buffers are full: try again later");
    let mut sender = connect::<Parts>(front.address).await;
    let refused = send(&mut sender, get("http://a/"), vec![]).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    // HTTP/1 buffers nothing.
    assert_eq!(front.get("/").await.status, 200);
    assert_eq!(echo.requests(), 5);

    // An upload that ends makes room.
    let (response, end, _connection) = uploads.pop().unwrap();
    drop(end);
    assert_eq!(soon(response.collect()).await.unwrap().to_bytes(), "");
    assert_eq!(send(&mut sender, get("http://a/"), vec![]).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn both_http_versions_can_be_forwarded_as_http2() {
    let echo = Echo::h2().await;
    let front = Front::start(&h2c(echo.address, GENEROUS)).await;
    let seen = front.get("/old?x").await.json();
    assert_eq!((&seen["target"], &seen["version"]), (&"/old?x".into(), &"HTTP/2.0".into()));
    let mut client = front.connect().await;
    let body = "x".repeat(200_000);
    let head = format!("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", body.len());
    client.send(&(head + &body)).await;
    assert_eq!(client.reply().await.text(), body);
    let mut sender = connect::<Parts>(front.address).await;
    let seen = json(send(&mut sender, get("http://a/new"), vec![]).await).await;
    assert_eq!((&seen["target"], &seen["authority"]), (&"/new".into(), &"a".into()));
    assert_eq!(echo.connections(), 1);
}

#[tokio::test]
async fn calls_of_grpc_pass_with_their_trailers() {
    let echo = Echo::h2().await;
    let front = Front::start(&h2c(echo.address, GENEROUS)).await;
    let mut sender = connect::<Parts>(front.address).await;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let parts = vec![
        Frame::data(Bytes::from_static(b"\0\0\0\0\x05hello")),
        Frame::data(Bytes::from_static(b"\0\0\0\0\x02hi")),
        Frame::trailers(trailers),
    ];
    let call = Request::post("http://a/echo.Service/Call")
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let response = send(&mut sender, call, parts).await;
    assert_eq!(response.headers()["content-type"], "application/grpc");
    let body = response.collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(body.to_bytes(), &b"\0\0\0\0\x05hello\0\0\0\0\x02hi"[..]);
}

#[tokio::test]
async fn denied_calls_of_grpc_are_told_in_their_own_way() {
    let echo = Echo::h2().await;
    // With a log, the wait is the same at every time of the clock.
    let policies =
        "policies: [{ name: calls, key: [path], limits: [1/minute], algorithm: sliding-log }]";
    let front = Front::start(&h2c(echo.address, policies)).await;
    let mut sender = connect::<Parts>(front.address).await;
    let call = || Request::post("http://a/a.B/C").header("content-type", "application/grpc+proto");
    assert!(!send(&mut sender, call(), vec![]).await.headers().contains_key("grpc-status"));
    let response = send(&mut sender, call(), vec![]).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["grpc-status"], "8");
    assert_eq!(response.headers()["content-type"], "application/grpc+proto");
    assert_eq!(response.headers()["grpc-message"], "limit_exceeded: try again in 1m");
    assert!(response.headers().contains_key("grpc-retry-pushback-ms"));
    assert!(response.headers().contains_key("grpc-status-details-bin"));
    assert!(response.headers()["ratelimit"].to_str().unwrap().contains("calls"));
    assert!(response.headers().contains_key("retry-after"));
    // gRPC for browsers is another protocol, whose clients expect a status of HTTP.
    let web = || Request::post("http://a/a.B/C").header("content-type", "application/grpc-web");
    let response = send(&mut sender, web(), vec![]).await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(echo.requests(), 1);
}

#[tokio::test]
async fn a_service_that_is_gone_is_a_bad_gateway_and_comes_back() {
    let echo = Echo::h2().await;
    let front = Front::start(&h2c(echo.address, GENEROUS)).await;
    assert_eq!(front.get("/").await.status, 200);
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let front = Front::start(&h2c(gone, GENEROUS)).await;
    front.get("/").await.problem(502);
}

#[tokio::test]
async fn one_host_is_expected_in_http2_too() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let mut sender = connect::<Parts>(front.address).await;
    let response = send(&mut sender, get("http://a/").header("host", "b"), vec![]).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(echo.requests(), 0);
}

#[tokio::test]
async fn attack_18_a_length_is_checked_and_written_anew() {
    let service = Recorder::start().await;
    let front = Front::to(service.address).await;
    for (lengths, is_fit) in [
        (&["5"][..], true),
        (&["0005"], true),
        (&["5", "5"], false),
        (&["5", "0005"], false),
        (&[""], false),
    ] {
        let mut sender = connect::<Parts>(front.address).await;
        let mut request = Request::post("http://a/");
        for length in lengths {
            request = request.header("content-length", *length);
        }
        sender.ready().await.unwrap();
        let body = Parts(vec![Frame::data(Bytes::from("hello"))].into());
        let answer = soon(sender.send_request(request.body(body).unwrap())).await;
        assert_eq!(answer.is_ok_and(|it| it.status() == 200), is_fit, "{lengths:?}");
        let heard = String::from_utf8(service.take()).unwrap();
        let expected = usize::from(is_fit);
        assert_eq!(heard.matches("content-length").count(), expected, "{lengths:?} {heard}");
        assert_eq!(heard.matches("content-length: 5\r\n").count(), expected, "{lengths:?} {heard}");
    }
}

#[tokio::test]
async fn attack_19_trailers_of_requests_are_dropped_unless_they_are_of_grpc() {
    let echo = Echo::h2().await;
    let front = Front::start(&h2c(echo.address, GENEROUS)).await;
    for (kind, names) in [("text/plain", &[][..]), ("application/grpc", &["grpc-status"])] {
        let mut trailers = HeaderMap::new();
        for name in ["x-api-key", "cookie", "grpc-status"] {
            trailers.insert(name, "0".parse().unwrap());
        }
        let parts = vec![Frame::data(Bytes::from("hi")), Frame::trailers(trailers)];
        let mut sender = connect(front.address).await;
        let request = Request::post("http://a/echo").header("content-type", kind);
        let response = send(&mut sender, request, parts).await;
        let body = response.collect().await.unwrap();
        let seen: Vec<_> =
            body.trailers().into_iter().flatten().map(|(it, _)| it.as_str()).collect();
        assert_eq!(seen, names, "{kind}");
    }
}

#[tokio::test]
async fn attack_04_spaces_around_a_value_make_no_other_caller() {
    let echo = Echo::start().await;
    let front = Front::start(&format!(
        "gateway: {{ upstreams: {{ up: http://{} }} }}\n\
         policies: [{{ name: p, key: [api_key], limits: [1/minute] }}]",
        echo.address
    ))
    .await;
    let mut sender = connect::<Parts>(front.address).await;
    for (value, status) in [("bob", 200), (" bob", 429), ("bob\t ", 429)] {
        let request = get("http://a/").header("x-api-key", value);
        assert_eq!(send(&mut sender, request, vec![]).await.status(), status, "{value:?}");
    }
}
