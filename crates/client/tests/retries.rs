//! When a call is sent again, when it is given up, and what that costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::time::Duration;

use tidegate_client::{Budget, PoliteError, PoliteLayer};

use support::{Client, Server, line};

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[tokio::test(start_paused = true)]
async fn a_minute_is_waited_for_and_time_is_left_to_come_back_apart() {
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
async fn an_error_says_what_was_told_and_no_more() {
    let server = Server::new([line(429, &[("retry-after", "3600")])]);
    let client = server.client(PoliteLayer::new());
    assert_eq!(client.get().await, Ok(429));
    assert_eq!(client.get().await, Err(PoliteError::TooEarly(seconds(3_600))));
}

/// How many retries a client has left: what a server gets that refuses without a word.
async fn retries_left(server: &Server, client: &Client) -> usize {
    let before = server.times().len();
    client.get_from("http://elsewhere/").await.unwrap();
    server.times().len() - before - 1
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_not_made_costs_nothing() {
    let server = Server::new([line(503, &[("retry-after", "3600")]), line(503, &[])]);
    let client = server.client(PoliteLayer::new().budget(Budget::new(0, 3)));
    assert_eq!(client.get().await, Ok(503));
    assert_eq!(retries_left(&server, &client).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_nobody_waits_for_costs_nothing() {
    let server = Server::new([line(503, &[("retry-after", "20")]), line(503, &[])]);
    let client = server.client(PoliteLayer::new().budget(Budget::new(0, 3)));
    let call = tokio::time::timeout(seconds(10), client.get());
    assert!(call.await.is_err());
    assert_eq!(retries_left(&server, &client).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_sent_earns_nothing() {
    let server = Server::new([line(429, &[("retry-after", "3600")]), line(503, &[])]);
    let client = server.client(PoliteLayer::new().budget(Budget::new(100, 2)));
    // What there was to begin with.
    assert_eq!(client.get().await, Ok(429));
    assert_eq!(retries_left(&server, &client).await, 2);
    for _ in 0..5 {
        assert!(client.get().await.is_err());
    }
    // One for the call itself.
    assert_eq!(retries_left(&server, &client).await, 1);
}
