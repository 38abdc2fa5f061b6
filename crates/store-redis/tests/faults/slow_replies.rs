//! A Redis that is far away: its answers take long, but all of them arrive.

use std::sync::Arc;
use std::time::Duration;

use tidegate_testkit::{Mode, Proxy, Redis};

use crate::support::load::Load;
use crate::support::{Counter, PATIENT, patient_store, store_within};

/// More than half of the deadline; the rest is for a machine that does other things as well.
const ROUND_TRIP: Duration = Duration::from_millis(300);
const DEADLINE: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_comes_in_time_and_every_request_counts_once() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    proxy.set_mode(Mode::Delay(ROUND_TRIP));
    let store = Arc::new(store_within(&proxy.url(), DEADLINE));
    // Opens both connections, and measures the round trip.
    for _ in 0..4 {
        let (a, b) = (Counter::ample(100), Counter::ample(101));
        tokio::join!(a.ask_until_answered(&store, PATIENT), b.ask_until_answered(&store, PATIENT));
    }
    let counters: Vec<_> = (0..12).map(|n| Counter::long(100, n)).collect();
    let load = Load::start(&store, &counters, 4, Duration::from_millis(7));
    load.go_on_for(300).await;
    let all: Vec<_> = (200..456).map(Counter::ample).collect();
    let batch: Vec<_> = all
        .into_iter()
        .map(|counter| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { counter.ask(&store).await })
        })
        .collect();
    for one in batch {
        assert!(one.await.unwrap().unwrap());
    }
    load.go_on_for(300).await;
    assert!(store.is_available());
    let direct = patient_store(&redis.url());
    for (tally, counter) in load.end().await.into_iter().zip(&counters) {
        tally.assert_errors_are(&[]);
        assert_eq!(counter.used(&direct).await, tally.admitted.min(100), "{tally:?}");
    }
}
