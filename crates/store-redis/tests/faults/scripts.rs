//! A script cache that does not last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_core::AlgorithmKind;
use tidegate_testkit::Redis;

use crate::support::load::Tally;
use crate::support::{Counter, patient_store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushing_scripts_in_a_loop_costs_no_error_and_no_count() {
    let redis = Arc::new(Redis::start());
    let store = Arc::new(patient_store(&redis.url()));
    let (stop, flushes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (server, ended, flushed) = (Arc::clone(&redis), Arc::clone(&stop), Arc::clone(&flushes));
    let flusher = std::thread::spawn(move || {
        let mut connection = server.connect().unwrap();
        while !ended.load(Ordering::Relaxed) {
            connection.call(&["SCRIPT", "FLUSH"]).unwrap().or_panic();
            flushed.fetch_add(1, Ordering::Relaxed);
        }
    });
    let counters: Vec<_> =
        (0..5).map(|n| Counter::new(AlgorithmKind::ALL[n], "1500/400d", n as u64)).collect();
    let callers = (0..40).map(|n| {
        let (store, counter) = (Arc::clone(&store), counters[n % counters.len()]);
        let flushes = Arc::clone(&flushes);
        tokio::spawn(async move {
            let (mut tally, mut asked) = (Tally::default(), 0);
            // Until both have happened often enough, whichever is slower on a busy machine.
            while asked < 250 || flushes.load(Ordering::Relaxed) <= 50 {
                tally.add(counter.ask(&store).await);
                asked += 1;
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
    flusher.join().unwrap();
    assert_eq!(admitted, 5 * 1_500);
}
