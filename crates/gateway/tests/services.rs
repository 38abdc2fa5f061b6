//! Services that are unwell, slow or full: what becomes of requests, and what operators see.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::recorder::{Manner, OK, Recorder};
use support::{Front, GENEROUS, soon};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

fn unavailable() -> Vec<Manner> {
    vec![Manner::AnswerAndClose(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n".to_vec())]
}

#[tokio::test]
async fn a_service_that_is_not_asked_any_more_is_not_unwell_for_ever() {
    let service = Recorder::with(unavailable()).await;
    let text = |health: &str| {
        format!(
            "gateway: {{ upstreams: {{ up: {{ urls: 'http://{}', max_requests: 9{health} }} }} }}\n\
             {GENEROUS}",
            service.address
        )
    };
    let front = Front::start(&text(", health: { path: /healthz, every: 10ms }")).await;
    soon(async {
        while !front.get("/").await.text().contains("no address of it is well") {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    service.behave(vec![Manner::Answer(OK.to_vec())]);
    front.reload(&text(""));
    assert_eq!(front.get("/").await.status, 200);
}

/// Reads all of a request, and never answers.
async fn hanging_h2() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(|request: http::Request<hyper::body::Incoming>| async {
                let _ = request.into_body().collect().await;
                std::future::pending::<()>().await;
                Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::new())))
            });
            let builder = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

#[tokio::test]
async fn a_body_that_was_sent_at_once_does_not_double_the_wait() {
    let service = hanging_h2().await;
    let front = Front::start(&format!(
        "gateway: {{ upstreams: {{ up: {{ urls: 'h2c://{service}', timeouts: {{ response: 2s }} }} }} }}\n\
         {GENEROUS}"
    ))
    .await;
    let start = Instant::now();
    let reply = front.ask("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello").await;
    assert!(reply.problem(504).contains("in time"));
    let waited = start.elapsed();
    assert!(
        waited >= Duration::from_secs(2) && waited < Duration::from_millis(3_500),
        "{waited:?}"
    );
}
