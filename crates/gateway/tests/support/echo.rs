//! A service that responds with a description of the request.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

type Body = BoxBody<Bytes, hyper::Error>;

/// `/echo` returns the body as it arrives, with its trailers; any other path describes the request. The query
/// sets the status and fields of the response: `?status=401&x-cost=5`.
pub(crate) struct Echo {
    pub(crate) address: SocketAddr,
    counts: Arc<Counts>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

impl Echo {
    pub(crate) async fn start() -> Self {
        Self::speaking(false).await
    }

    pub(crate) async fn h2() -> Self {
        Self::speaking(true).await
    }

    async fn speaking(is_h2: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let _ = stream.set_nodelay(true);
                let counts = Arc::clone(&shared);
                let service = service_fn(move |request| {
                    counts.requests.fetch_add(1, Ordering::SeqCst);
                    answer(request)
                });
                let io = TokioIo::new(stream);
                tokio::spawn(async move {
                    let _ = match is_h2 {
                        true => {
                            let builder = http2::Builder::new(TokioExecutor::new());
                            builder.serve_connection(io, service).await
                        }
                        false => http1::Builder::new().serve_connection(io, service).await,
                    };
                });
            }
        });
        Self { address, counts, task }
    }

    pub(crate) fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let mut response = Response::builder();
    for pair in parts.uri.query().unwrap_or_default().split('&') {
        response = match pair.split_once('=') {
            Some(("status", status)) => response.status(status),
            Some((name, value)) => response.header(name, value),
            None => response,
        };
    }
    if parts.uri.path().starts_with("/echo") {
        for name in ["content-length", "content-type", "trailer"] {
            if let Some(value) = parts.headers.get(name) {
                response = response.header(name, value);
            }
        }
        return Ok(response.body(body.boxed()).unwrap());
    }
    let length = body.collect().await.map_or(0, |body| body.to_bytes().len());
    let described = json!({
        "method": parts.method.as_str(),
        "target": parts.uri.path_and_query().map(http::uri::PathAndQuery::as_str),
        "authority": parts.uri.authority().map(http::uri::Authority::as_str),
        "version": format!("{:?}", parts.version),
        "headers": fields(&parts.headers),
        "length": length,
    });
    let text = Full::new(Bytes::from(described.to_string()));
    let response = response.header("content-type", "application/json");
    Ok(response.body(text.map_err(|never| match never {}).boxed()).unwrap())
}

fn fields(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}
