//! One client and several servers: what one of them says does not hold for another.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::convert::Infallible;
use std::time::Duration;

use http::Request;
use tidegate_client::{PoliteError, PoliteLayer, Throttle};
use tower::util::BoxCloneSyncService;
use tower::{Layer, service_fn};

use support::{Client, Server, line};

#[tokio::test(start_paused = true)]
async fn a_throttle_spares_only_the_server_that_refuses() {
    let (bad, good) = (Server::new([line(503, &[])]), Server::new([line(200, &[])]));
    let (ours, theirs) = (bad.clone(), good.clone());
    let service = service_fn(move |request: Request<String>| {
        let is_bad = request.uri().host() == Some("bad");
        let response = if is_bad { ours.answer(request) } else { theirs.answer(request) };
        async move { Ok::<_, Infallible>(response) }
    });
    let layer = PoliteLayer::new().seed(7).max_retries(0).throttle(Throttle::default());
    let client = Client(BoxCloneSyncService::new(layer.layer(service)));
    for _ in 0..200 {
        let _ = client.get_from("http://bad/").await;
        assert_eq!(client.get_from("http://good/").await, Ok(200));
    }
    assert!(bad.times().len() < 20, "{}", bad.times().len());
}

#[tokio::test(start_paused = true)]
async fn what_was_too_early_is_no_request_to_a_throttle() {
    let server =
        Server::new([line(200, &[]), line(429, &[("retry-after", "100")]), line(200, &[])]);
    let client = server.client(PoliteLayer::new().throttle(Throttle::default()));
    assert_eq!(client.get().await, Ok(200));
    assert_eq!(client.get().await, Ok(429));
    for _ in 0..100 {
        assert!(matches!(client.get().await, Err(PoliteError::TooEarly(_))));
    }
    tokio::time::sleep(Duration::from_secs(100)).await;
    for _ in 0..10 {
        assert_eq!(client.get().await, Ok(200));
    }
}
