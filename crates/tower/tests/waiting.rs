//! Requests that wait for their turn instead of being denied.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod support;

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use support::get_from;
use tidegate::config::PolicySource;
use tidegate::tower::RateLimitLayer;
use tidegate::{Limiter, MemoryStore, PlanLimiter, TokioClock};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::ServiceExt;

fn app(layer: RateLimitLayer) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(layer)
}

/// One a second.
fn slow_layer() -> RateLimitLayer {
    let store = MemoryStore::builder().clock(TokioClock::new()).build();
    let limiter = Limiter::builder().limit("1/second burst 1").store(store).build().unwrap();
    RateLimitLayer::limiter(limiter)
}

/// Sends requests of one client at once. Returns their statuses, each with the second in which it came.
async fn send(app: &Router, count: usize) -> Vec<(u16, u64)> {
    let (began, mut tasks) = (Instant::now(), JoinSet::new());
    for _ in 0..count {
        let response = app.clone().oneshot(get_from("203.0.113.9"));
        tasks.spawn(async move {
            let status = response.await.unwrap().status().as_u16();
            (status, began.elapsed().as_secs_f64().round() as u64)
        });
        // Tasks arrive in this order.
        tokio::task::yield_now().await;
    }
    let mut answers = tasks.join_all().await;
    answers.sort_by_key(|(_, second)| *second);
    answers
}

#[tokio::test(start_paused = true)]
async fn requests_wait_in_line_and_pass_one_by_one() {
    let app = app(slow_layer().wait(Duration::from_secs(10), 10));
    assert_eq!(send(&app, 4).await, [(200, 0), (200, 1), (200, 2), (200, 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_line_is_bounded_in_length_and_in_time() {
    // One passes, the next is at the head of the line, two wait behind it, and the last is denied at once.
    let app = app(slow_layer().wait(Duration::from_secs(10), 2));
    let statuses: Vec<_> = send(&app, 5).await;
    assert_eq!(statuses.iter().filter(|(status, _)| *status == 200).count(), 4, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|answer| **answer == (429, 0)).count(), 1, "{statuses:?}");

    let app = self::app(slow_layer().wait(Duration::from_millis(1_500), 10));
    let statuses = send(&app, 3).await;
    assert_eq!(statuses.iter().filter(|(status, _)| *status == 200).count(), 2, "{statuses:?}");
}

#[tokio::test(start_paused = true)]
async fn who_is_turned_away_is_told_when_to_come_back() {
    let app = app(slow_layer().wait(Duration::from_secs(5), 0));
    let first = tokio::spawn(app.clone().oneshot(get_from("203.0.113.9")));
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
    let waiting = tokio::spawn(app.clone().oneshot(get_from("203.0.113.9")));
    tokio::task::yield_now().await;
    let refused = app.clone().oneshot(get_from("203.0.113.9")).await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "5");
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_policies_too() {
    let text = "policies: [{ name: a, key: [ip], limits: [1/second burst 1] }]";
    let store = MemoryStore::builder().clock(TokioClock::new()).build();
    let source = PolicySource::new("test", text).unwrap();
    let limiter = PlanLimiter::load(&source, store).unwrap();
    let app = app(RateLimitLayer::limiter(limiter).wait(Duration::from_secs(10), 10));
    assert_eq!(send(&app, 3).await, [(200, 0), (200, 1), (200, 2)]);
    // Another client has a line of its own.
    let other = app.clone().oneshot(get_from("203.0.113.10"));
    let began = Instant::now();
    assert_eq!(other.await.unwrap().status(), 200);
    assert_eq!(began.elapsed(), Duration::ZERO);
}
