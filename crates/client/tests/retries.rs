//! When a call is sent again, when it is given up, and what that costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::time::Duration;

use tidegate_client::{PoliteError, PoliteLayer};

use support::{Server, line};

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
