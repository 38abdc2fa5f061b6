//! A script cache that does not last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_core::AlgorithmKind;
use tidegate_testkit::Redis;

use crate::support::load::Tally;
use crate::support::{Counter, patient_store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushing_scripts_in_a_loop_costs_no_error_and_no_count() {
    let redis = Arc::new(Redis::start());
    let store = Arc::new(patient_store(&redis.url()));
    let stop = Arc::new(AtomicBool::new(false));
    let (server, ended) = (Arc::clone(&redis), Arc::clone(&stop));
    let flusher = std::thread::spawn(move || {
        let (mut connection, mut flushes) = (server.connect().unwrap(), 0);
        while !ended.load(Ordering::Relaxed) {
            connection.call(&["SCRIPT", "FLUSH"]).unwrap().or_panic();
            flushes += 1;
        }
        flushes
    });
    let counters: Vec<_> =
        (0..4).map(|n| Counter::new(AlgorithmKind::ALL[n], "1500/400d", n as u64)).collect();
    let callers = (0..32).map(|n| {
        let (store, counter) = (Arc::clone(&store), counters[n % counters.len()]);
        tokio::spawn(async move {
            let mut tally = Tally::default();
            for _ in 0..250 {
                tally.add(counter.ask(&store).await);
            }
            tally
        })
    });
    let callers: Vec<_> = callers.collect();
    let mut admitted = 0;
    for caller in callers {
        let tally = caller.await.unwrap();
        tally.assert_errors_are(&[]);
        admitted += tally.admitted;
    }
    stop.store(true, Ordering::Relaxed);
    let flushes = flusher.join().unwrap();
    assert!(flushes > 50, "{flushes} flushes");
    assert_eq!(admitted, 4 * 1_500);
}
