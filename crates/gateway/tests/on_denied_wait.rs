//! `on_denied: wait`: denied requests wait in a queue.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use support::echo::Echo;
use support::{Front, soon, with};
use tidegate::Span;

#[tokio::test(start_paused = true)]
async fn denied_requests_wait_in_a_queue() {
    let echo = Echo::start().await;
    let text = with(
        echo.address,
        "",
        "[{ name: smooth, key: [ip], limits: [10/second burst 1], on_denied: wait, max_wait: 350ms }]",
    );
    // This clock advances while requests wait.
    let store = tidegate::MemoryStore::builder().clock(TokioClock::new()).build();
    let front = Front::on(&text, store, tidegate_server::ListenerConfig::default()).await;
    let start = tokio::time::Instant::now();
    let mut waiting = Vec::new();
    for number in 0..6 {
        let mut client = front.connect().await;
        client.send(&format!("GET /{number} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        waiting.push(tokio::spawn(async move {
            let reply = client.reply().await;
            (reply.status, start.elapsed().as_millis() / 100)
        }));
        // They join the queue in this order.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }
    let mut outcomes = Vec::new();
    for task in waiting {
        outcomes.push(soon(task).await.unwrap());
    }
    let passed: Vec<_> = outcomes.iter().filter(|(status, _)| *status == 200).collect();
    assert_eq!(passed, [&(200, 0), &(200, 1), &(200, 2), &(200, 3)], "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|(status, _)| *status == 429).count(), 2);
    // The requests that waited took several attempts, but count once.
    assert_eq!(front.decisions("smooth", "allowed").await, 4);
    assert_eq!(front.decisions("smooth", "denied").await, 2);
}

/// A clock that follows tokio's time, which a test can pause.
struct TokioClock(tokio::time::Instant);

impl TokioClock {
    fn new() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl tidegate::Clock for TokioClock {
    fn now(&self) -> tidegate::Timestamp {
        tidegate::Timestamp::from_secs(1_000_000_020) + Span::from(self.0.elapsed())
    }
}
