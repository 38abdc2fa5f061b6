//! The layer under plain hyper, over HTTP/1: no framework, no buffer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

use std::convert::Infallible;

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tidegate_tower::{PeerIp, RateLimitLayer};
use tower::{Layer, ServiceBuilder};

#[tokio::test]
async fn connections_share_a_limit() {
    let layer = RateLimitLayer::new("3/day").unwrap();
    let hello = tower::service_fn(|_: Request<Incoming>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello"))))
    });
    let mut answers = Vec::new();
    for _ in 0..2 {
        let (ours, theirs) = tokio::io::duplex(4_096);
        let service = ServiceBuilder::new()
            .map_request(|mut request: Request<Incoming>| {
                request.extensions_mut().insert(PeerIp("203.0.113.9".parse().unwrap()));
                request
            })
            .service(layer.layer(hello));
        let server = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(theirs), TowerToHyperService::new(service));
        tokio::spawn(server);
        let (mut client, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(ours)).await.unwrap();
        tokio::spawn(connection);
        for _ in 0..2 {
            let request = Request::get("/").header("host", "a").body(Empty::<Bytes>::new());
            let response = client.send_request(request.unwrap()).await.unwrap();
            answers.push(response.status().as_u16());
            let length: usize =
                response.headers()["content-length"].to_str().unwrap().parse().unwrap();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body.len(), length, "a denial has a length too");
        }
    }
    assert_eq!(answers, [200, 200, 200, 429]);
}
