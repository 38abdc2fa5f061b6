//! Limiters of the program's own in the layer, switches, and what tests of programs need.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use http_body_util::BodyExt;
use support::{from, get_from, statuses};
use tidegate::tower::{PeerIp, RateLimitLayer};
use tidegate::{AnyLimiter, Cost, Decision, Key, RateLimiter};
use tower::ServiceExt;

/// Allows as many as were given to it, whoever asks.
#[derive(Clone, Default)]
struct Tickets(Arc<AtomicU64>);

impl RateLimiter for Tickets {
    async fn decide<K: Key + Sync + ?Sized>(&self, _: &K, cost: Cost) -> Decision {
        let taken = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(cost.get()));
        match taken {
            Ok(_) => Decision::allow(),
            Err(_) => Decision::deny(Duration::from_secs(9)),
        }
    }

    async fn give_back<K: Key + Sync + ?Sized>(&self, _: &K, cost: Cost) {
        self.0.fetch_add(cost.get(), Ordering::SeqCst);
    }
}

fn app(layer: RateLimitLayer) -> Router {
    Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/fails", get(|| async { StatusCode::UNAUTHORIZED }))
        .layer(layer)
}

#[tokio::test]
async fn any_limiter_can_be_behind_a_layer() {
    let tickets = Tickets::default();
    tickets.0.store(2, Ordering::SeqCst);
    let app = app(RateLimitLayer::limiter(AnyLimiter::new(tickets.clone())));
    assert_eq!(statuses(&app, [(); 3].map(|()| get_from("::1"))).await, [200, 200, 429]);
    let denied = app.clone().oneshot(get_from("::1")).await.unwrap();
    assert_eq!(denied.headers()["retry-after"], "9");
    // Its limits are not known.
    assert!(!denied.headers().contains_key("ratelimit"));
    let body = denied.into_body().collect().await.unwrap().to_bytes();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["detail"], "the limit is used up: try again in 9s");
    assert_eq!(body["reason"], "limit_exceeded");
}

#[tokio::test]
async fn what_does_not_count_is_given_back_to_any_limiter() {
    let tickets = Tickets::default();
    tickets.0.store(1, Ordering::SeqCst);
    let layer = RateLimitLayer::limiter(AnyLimiter::new(tickets)).count_failures();
    let requests = ["/", "/", "/fails", "/"].map(|path| from("::1", path));
    assert_eq!(statuses(&app(layer), requests).await, [200, 200, 401, 429]);
}

#[tokio::test]
async fn a_layer_can_be_switched_off() {
    let layer = RateLimitLayer::new("1/day").unwrap();
    let off = app(layer.clone().enabled(false));
    assert_eq!(statuses(&off, [(); 3].map(|()| get_from("::1"))).await, [200; 3]);
    let on = app(layer.enabled(true));
    assert_eq!(statuses(&on, [(); 2].map(|()| get_from("::1"))).await, [200, 429]);
}

#[tokio::test]
async fn mocked_addresses_are_addresses() {
    let limited = app(RateLimitLayer::new("1/day").unwrap());
    let from =
        |peer: [u8; 4]| limited.clone().layer(MockConnectInfo(SocketAddr::from((peer, 4711))));
    let request = || [Request::get("/").body(Body::empty()).unwrap()];
    assert_eq!(statuses(&from([10, 0, 0, 1]), request()).await, [200]);
    assert_eq!(statuses(&from([10, 0, 0, 2]), request()).await, [200]);
    assert_eq!(statuses(&from([10, 0, 0, 1]), request()).await, [429]);
}

#[tokio::test]
async fn a_request_is_checked_without_a_service() {
    let layer = RateLimitLayer::new("1/day").unwrap().skip(|head| head.uri().path() == "/free");
    let request = |path: &str| {
        let mut request = Request::get(path).body(()).unwrap();
        request.extensions_mut().insert(PeerIp([10, 0, 0, 1].into()));
        request
    };
    let mut first = request("/");
    let mut response = http::Response::new(());
    layer.check_request(&mut first).await.unwrap().add_fields(response.headers_mut());
    assert!(response.headers().contains_key("ratelimit"));
    assert!(first.extensions().get::<Decision>().is_some());
    assert_eq!(layer.check_request(&mut request("/")).await.unwrap_err().status(), 429);
    assert!(layer.check_request(&mut request("/free")).await.is_ok());
    // Two keys: it could be counted by either.
    let layer = layer.by(tidegate::tower::RequestKey::header("x-user"));
    let mut twice = request("/");
    twice.headers_mut().append("x-user", "a".parse().unwrap());
    twice.headers_mut().append("x-user", "b".parse().unwrap());
    assert_eq!(layer.check_request(&mut twice).await.unwrap_err().status(), 400);
}
