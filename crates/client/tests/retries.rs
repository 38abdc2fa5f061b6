//! Retries: when a call is sent again, when it gives up, and what it costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use tidegate_client::{ClientEvent, GiveUpReason, PoliteError, PoliteLayer, RetryBudget};
use tokio::time::{Instant, sleep};
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

use support::{Client, Server, heard, line};

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_a_minute_is_spread_by_jitter() {
    let refused_once = || [line(429, &[("retry-after", "60")]), line(200, &[])];
    let server = Server::new(refused_once());
    let client = server.client(PoliteLayer::new().max_wait(seconds(60)));
    assert_eq!(client.get().await, Ok(200));
    assert_eq!(server.times(), [0, 60_000]);

    let server = Server::new((0..20).flat_map(|_| refused_once()));
    let client = server.client(PoliteLayer::new());
    for _ in 0..20 {
        assert_eq!(client.get().await, Ok(200));
    }
    let waits: Vec<_> = server.times().chunks(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.iter().all(|wait| (60_000..=75_001).contains(wait)), "{waits:?}");
    let (first, last) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(last - first > 10_000, "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn an_error_shows_the_servers_advice_only() {
    let server = Server::new([line(429, &[("retry-after", "3600")])]);
    let client = server.client(PoliteLayer::new());
    assert_eq!(client.get().await, Ok(429));
    assert_eq!(client.get().await, Err(PoliteError::TooEarly(seconds(3_600))));
}

/// How many retries a client has left: the requests to a server that refuses without `Retry-After`.
async fn retries_left(server: &Server, client: &Client) -> usize {
    let before = server.times().len();
    client.get_from("http://elsewhere/").await.unwrap();
    server.times().len() - before - 1
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_not_made_costs_nothing() {
    let server = Server::new([line(503, &[("retry-after", "3600")]), line(503, &[])]);
    let client = server.client(PoliteLayer::new().budget(RetryBudget::new(0, 3)));
    assert_eq!(client.get().await, Ok(503));
    assert_eq!(retries_left(&server, &client).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_nobody_waits_for_costs_nothing() {
    let server = Server::new([line(503, &[("retry-after", "20")]), line(503, &[])]);
    let client = server.client(PoliteLayer::new().budget(RetryBudget::new(0, 3)));
    let call = tokio::time::timeout(seconds(10), client.get());
    assert!(call.await.is_err());
    assert_eq!(retries_left(&server, &client).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_sent_earns_nothing() {
    let server = Server::new([line(429, &[("retry-after", "3600")]), line(503, &[])]);
    let client = server.client(PoliteLayer::new().budget(RetryBudget::new(100, 2)));
    // The initial balance.
    assert_eq!(client.get().await, Ok(429));
    assert_eq!(retries_left(&server, &client).await, 2);
    for _ in 0..5 {
        assert!(client.get().await.is_err());
    }
    // One for the call itself.
    assert_eq!(retries_left(&server, &client).await, 1);
}

/// A body that records when it is dropped, as its connection would be released.
struct Held(Arc<Mutex<Option<Instant>>>);

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = Some(Instant::now());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_held_while_its_retry_waits() {
    let (start, dropped) = (Instant::now(), Arc::<Mutex<Option<Instant>>>::default());
    let held = Arc::clone(&dropped);
    let service = service_fn(move |_: Request<String>| {
        let is_first = start.elapsed().is_zero();
        let response = Response::builder().status(if is_first { 429 } else { 200 });
        let body = is_first.then(|| Held(Arc::clone(&held)));
        let response = response.header("retry-after", "20").body(body).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    let client = PoliteLayer::new().layer(service);
    let response = client.oneshot(Request::new(String::new())).await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(start.elapsed() >= seconds(20));
    assert_eq!(*dropped.lock().unwrap(), Some(start));
}

/// While the first call waits for its retry, the second gets a wait that is too long for both.
#[tokio::test(start_paused = true)]
async fn a_retry_that_may_not_leave_in_the_end_is_too_early() {
    let server = Server::new([line(429, &[("retry-after", "20")])]);
    let server_of_others = Server::new([line(429, &[("retry-after", "600")])]);
    let (ours, theirs) = (server.clone(), server_of_others.clone());
    let service = service_fn(move |request: Request<String>| {
        let response =
            if request.body().is_empty() { ours.answer(request) } else { theirs.answer(request) };
        async move {
            sleep(seconds(1)).await;
            Ok::<_, Infallible>(response)
        }
    });
    let (layer, events) = heard(PoliteLayer::new().seed(7));
    let client = Client(BoxCloneSyncService::new(layer.layer(service)));
    let late = client.clone();
    let other = tokio::spawn(async move {
        sleep(Duration::from_millis(500)).await;
        late.send(Method::PUT, "other").await
    });
    let Err(PoliteError::TooEarly(wait)) = client.get().await else { panic!("was answered") };
    assert!(wait > seconds(570), "{wait:?}");
    assert_eq!(other.await.unwrap(), Ok(429));
    assert_eq!((server.times().len(), server_of_others.times().len()), (1, 1));
    let gave_up = ClientEvent::GaveUp { attempt: 1, why: GiveUpReason::Wait };
    assert!(events.lock().unwrap().contains(&gave_up));
}

#[tokio::test(start_paused = true)]
async fn milliseconds_where_seconds_are_meant_block_for_a_day() {
    let server = Server::new([line(429, &[("retry-after", "86400000")]), line(200, &[])]);
    let client = server.client(PoliteLayer::new());
    assert_eq!(client.get().await, Ok(429));
    assert_eq!(client.get().await, Err(PoliteError::TooEarly(seconds(86_400))));
    sleep(seconds(86_400)).await;
    assert_eq!(client.get().await, Ok(200));
}

#[tokio::test(start_paused = true)]
async fn a_retry_before_its_time_is_paid_for() {
    let server = Server::new([line(429, &[("retry-after", "60")])]);
    for (most, sent) in [(60, 2 + 10), (59, 2 + 1), (0, 2 + 1)] {
        let layer = PoliteLayer::new().max_wait(seconds(600)).max_block(seconds(most));
        let client = server.client(layer.budget(RetryBudget::new(0, 1)));
        let before = server.times().len();
        assert_eq!(client.get().await, Ok(429));
        assert_eq!(client.get_from("http://b/").await, Ok(429));
        assert_eq!(server.times().len() - before, sent, "{most}");
    }
}
