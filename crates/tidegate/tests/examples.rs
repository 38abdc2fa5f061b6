//! The examples behave as documented.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

#[path = "../examples/mails.rs"]
#[allow(dead_code, reason = "an example has a main")]
mod mails;
#[path = "../examples/worker.rs"]
#[allow(dead_code, reason = "an example has a main")]
mod worker;

use std::sync::Arc;
use std::time::Duration;

use mails::MailError;
use tidegate::{Clock, Limiter, MemoryStore, Timestamp, WaitLimits};
use tokio::time::Instant;

#[tokio::test]
async fn mails_are_counted_by_sender_and_together() {
    let limit_of = async |from| match mails::send(from, "carol").await {
        Ok(_) => "sent",
        Err(MailError::TooMany(denied)) => denied.name(),
        Err(MailError::NoSuchAddress) => "nobody",
    };
    for from in ["alice", "alice", "alice"] {
        assert_eq!(limit_of(from).await, "sent");
    }
    assert_eq!(limit_of("alice").await, "mails of a sender");
    assert_eq!((limit_of("bob").await, limit_of("bob").await), ("sent", "sent"));
    assert_eq!((limit_of("bob").await, limit_of("dave").await), ("mails", "mails"));
    // In words: hours and minutes, or whatever is left of the day.
    let error = mails::send("alice", "carol").await.unwrap_err().to_string();
    assert!(error.contains("try again in ") && !error.contains("us"), "{error}");
}

/// Tokio's time, which a test can stop.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000) + self.0.elapsed().into()
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_calls_every_twenty_milliseconds() {
    let start = Instant::now();
    let store = MemoryStore::builder().clock(TokioClock(start)).build();
    let limiter = Limiter::builder()
        .limit("50/second burst 1")
        .wait_limits(WaitLimits { max_wait: Duration::from_millis(505), max_queue: 100 })
        .store(store)
        .build()
        .unwrap();
    let late = worker::work(Arc::new(limiter), 40, |_| {}).await;
    // The first immediately, and 25 within half a second.
    assert_eq!(late, 14);
    assert!(start.elapsed() < Duration::from_millis(510));
}
