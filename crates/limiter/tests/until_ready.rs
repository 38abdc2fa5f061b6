//! `until_ready`: in order, bounded, and fair. Time is tokio's, paused: no test sleeps.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::{
    Clock, Cost, DecisionReason, Fingerprint, Limiter, LimiterBuilder, MemoryStore, Span,
    Timestamp, WaitError, WaitLimits, WaitQueues,
};
use tokio::time::Instant;

/// A store clock that follows tokio's, so that a paused runtime moves both.
#[derive(Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000) + Span::from(self.0.elapsed())
    }
}

type PausedStore = MemoryStore<TokioClock>;

fn builder(limit: &str) -> LimiterBuilder<PausedStore> {
    let store = MemoryStore::builder().clock(TokioClock(Instant::now())).build();
    Limiter::builder().limit(limit).store(store)
}

#[tokio::test(start_paused = true)]
async fn calls_are_spaced_by_the_rate() {
    let limiter = builder("10/second burst 1").build().unwrap();
    let start = Instant::now();
    for turn in 0..20 {
        limiter.until_ready("key").await.unwrap();
        let waited = start.elapsed();
        let due = Duration::from_millis(100 * turn);
        assert!(waited >= due && waited < due + Duration::from_millis(30), "{turn}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_keep_their_order() {
    let limiter = Arc::new(builder("10/second burst 2").build().unwrap());
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    for turn in 0..50_usize {
        let (limiter, served) = (Arc::clone(&limiter), Arc::clone(&served));
        tasks.spawn(async move {
            // Every other caller needs less and would fit sooner, if callers could overtake.
            let cost = Cost::new(2 - turn as u64 % 2).unwrap();
            limiter.until_ready_n("key", cost).await.unwrap();
            served.lock().unwrap().push(turn);
        });
        tokio::task::yield_now().await;
    }
    while tasks.join_next().await.is_some() {}
    assert_eq!(*served.lock().unwrap(), (0..50).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_is_refused_at_once() {
    let patience = WaitLimits { max_wait: Duration::from_secs(5), max_queue: 10 };
    let limiter = builder("1/minute burst 1").wait_limits(patience).build().unwrap();
    limiter.until_ready("key").await.unwrap();
    let start = Instant::now();
    let refused = limiter.until_ready("key").await.unwrap_err();
    assert_eq!(refused, WaitError::Later(Duration::from_secs(60)));
    assert_eq!(refused.to_string(), "the wait would be 1m, which is longer than allowed");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn without_a_bound_a_call_waits_as_long_as_it_takes() {
    let patience = WaitLimits { max_wait: Duration::MAX, max_queue: 10 };
    let limiter = builder("1/day burst 1").wait_limits(patience).build().unwrap();
    limiter.until_ready("key").await.unwrap();
    limiter.until_ready("key").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_behind_others_gives_up_in_time() {
    let patience = WaitLimits { max_wait: Duration::from_secs(2), max_queue: 10 };
    let limiter = Arc::new(builder("1/second burst 1").wait_limits(patience).build().unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let limiter = Arc::clone(&limiter);
        tasks.spawn(async move {
            let start = Instant::now();
            let ready = limiter.until_ready("key").await.is_ok();
            (ready, start.elapsed())
        });
    }
    let outcomes = tasks.join_all().await;
    assert!(outcomes.iter().all(|(_, waited)| *waited <= Duration::from_millis(2_100)));
    let served = outcomes.iter().filter(|(ready, _)| *ready).count();
    assert!((2..=3).contains(&served), "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn the_line_is_bounded() {
    let patience = WaitLimits { max_wait: Duration::from_secs(60), max_queue: 2 };
    let limiter = Arc::new(builder("1/second burst 1").wait_limits(patience).build().unwrap());
    limiter.until_ready("key").await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let limiter = Arc::clone(&limiter);
        tasks.spawn(async move { limiter.until_ready("key").await });
    }
    tokio::task::yield_now().await;
    assert_eq!(limiter.until_ready("key").await.unwrap_err(), WaitError::QueueFull(2));
    assert!(limiter.until_ready("another").await.is_ok());
    assert!(tasks.join_all().await.iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn a_line_without_callers_takes_no_memory() {
    let (queues, key) = (WaitQueues::default(), Fingerprint::new(0, 1));
    let turn =
        queues.in_turn(key, WaitLimits::default(), || async { format!("{queues:?}") }, |_| None);
    let during = turn.await.unwrap();
    assert!(during.contains("callers: 1"), "{during}");
    assert!(format!("{queues:?}").contains("data: {}"), "{queues:?}");
}

#[tokio::test(start_paused = true)]
async fn leaving_the_line_takes_nothing() {
    let limiter = Arc::new(builder("1/second burst 1").build().unwrap());
    limiter.until_ready("key").await.unwrap();
    let leaver = tokio::spawn({
        let limiter = Arc::clone(&limiter);
        async move { limiter.until_ready("key").await }
    });
    tokio::task::yield_now().await;
    leaver.abort();
    let start = Instant::now();
    limiter.until_ready("key").await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(1_100));
}

#[tokio::test(start_paused = true)]
async fn a_cost_that_never_fits_does_not_wait() {
    let limiter = builder("10/second burst 1").build().unwrap();
    let refused = limiter.until_ready_n("key", Cost::new(2).unwrap()).await.unwrap_err();
    assert_eq!(refused, WaitError::Never(DecisionReason::CostExceedsLimit));
    assert!(refused.to_string().contains("cost_exceeds_limit"));
}
