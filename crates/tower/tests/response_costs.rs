//! Costs that the response tells.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod support;

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use support::{from, limiter, statuses};
use tidegate::config::PolicySource;
use tidegate::tower::RateLimitLayer;
use tidegate::{MemoryStore, PlanLimiter};

#[derive(Clone)]
struct Tokens(u64);

/// Answers with what the path says it cost.
async fn answer(Path(tokens): Path<u64>) -> impl IntoResponse {
    let mut response = StatusCode::OK.into_response();
    response.extensions_mut().insert(Tokens(tokens));
    response
}

fn app(layer: RateLimitLayer) -> Router {
    let layer =
        layer.cost_of_response(|response| response.extensions().get().map(|Tokens(it)| *it));
    Router::new()
        .route("/tokens/{n}", get(answer))
        .route("/silent", get(|| async { "hello" }))
        .layer(layer)
}

fn request(path: &str) -> axum::http::Request<axum::body::Body> {
    from("203.0.113.9", path)
}

#[tokio::test]
async fn a_response_takes_what_it_cost() {
    let (limiter, _) = limiter("100/hour burst 100");
    let app = app(RateLimitLayer::limiter(limiter));
    // 30, and 1 for a response that says nothing; nothing for one that cost nothing.
    let paths = ["/tokens/30", "/silent", "/tokens/0", "/tokens/60"];
    assert_eq!(statuses(&app, paths.map(request)).await, [200; 4]);
    // 9 are left: the next may still begin, takes all, and the one after it is denied.
    assert_eq!(statuses(&app, ["/tokens/50", "/silent"].map(request)).await, [200, 429]);
}

#[tokio::test]
async fn an_estimate_is_corrected() {
    let (limiter, _) = limiter("100/hour burst 100");
    let layer = RateLimitLayer::limiter(limiter).cost(|_| 40);
    let app = app(layer);
    // Each needs 40 to begin, and takes 10.
    let paths = ["/tokens/10"; 7];
    assert_eq!(statuses(&app, paths.map(request)).await, [200; 7]);
    assert_eq!(statuses(&app, paths.map(request)).await, [429; 7]);
}

#[tokio::test]
async fn policies_take_what_a_response_cost() {
    let text = "policies: [{ name: a, key: [ip], limits: [100/hour burst 100] }]";
    let source = PolicySource::new("test", text).unwrap();
    let limiter = PlanLimiter::load(&source, MemoryStore::new()).unwrap();
    let app = app(RateLimitLayer::limiter(limiter));
    let paths = ["/tokens/30", "/tokens/0", "/tokens/65", "/tokens/50", "/silent"];
    assert_eq!(statuses(&app, paths.map(request)).await, [200, 200, 200, 200, 429]);
}
