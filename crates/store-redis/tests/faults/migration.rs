//! A slot migrates from one node of a Cluster to another while callers send requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::{AlgorithmKind, Fingerprint};
use tidegate_store::{Store, StoreErrorKind, Verdicts};
use tidegate_store_redis::RedisStore;
use tidegate_testkit::{Cluster, slot_of};
use tokio::runtime::Handle;
use tokio::task::{JoinSet, block_in_place};

use crate::support::load::{Load, Tally};
use crate::support::{Counter, patient_store};

const LIMIT: u64 = 400;

/// Counters of different subjects in one slot: the lower half chooses it.
fn counters_of_one_slot(count: u64) -> Vec<Counter> {
    let quota = format!("{LIMIT}/400d");
    let subject = |n| Fingerprint::new(crate::support::mix(n), 5);
    (0..count).map(|n| Counter::of(AlgorithmKind::FixedWindow, &quota, subject(n))).collect()
}

fn slot(store: &RedisStore, counter: &Counter) -> u16 {
    slot_of(&store.key_name(&counter.charge()))
}

/// Moves the counter's slot to the next node, pausing for a while after each step.
fn migrate(cluster: &Cluster, slot: u16, mut still: impl FnMut()) {
    let to = (cluster.node_of_slot(slot) + 1) % 3;
    block_in_place(|| cluster.migrate_slot_with(slot, to, |_| still()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_in_a_slot_that_moves_admit_exactly_their_limit() {
    let cluster = Cluster::start(3);
    let store = Arc::new(patient_store(&cluster.url()));
    let counters = counters_of_one_slot(12);
    let load = Load::start(&store, &counters, 2, Duration::from_millis(4));
    load.go_on_for(200).await;
    let still = || Handle::current().block_on(load.go_on_for(100));
    migrate(&cluster, slot(&store, &counters[0]), still);
    load.go_on_for(12 * LIMIT * 2).await;
    let tallies = load.end().await;
    for (counter, tally) in counters.iter().zip(&tallies) {
        assert_eq!(counter.used(&store).await, LIMIT);
        assert_eq!(tally.admitted, LIMIT, "{tally:?}");
        // No errors at all would be better: see the last test in this file.
        tally.assert_errors_are(&[]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_limits_in_a_slot_that_moves_are_all_paid_or_none() {
    let cluster = Cluster::start(3);
    let store = Arc::new(patient_store(&cluster.url()));
    // Five limits, and the keys move four at a time: for a while they are in two places.
    let subject = Fingerprint::new(3, 5);
    let of = |kind, quota: &str| Counter::of(kind, quota, subject);
    let counters = vec![
        of(AlgorithmKind::FixedWindow, "3000/400d"),
        of(AlgorithmKind::FixedWindow, "2000/400d"),
        of(AlgorithmKind::SlidingLog, "3000/400d"),
        of(AlgorithmKind::SlidingWindow, "3000/400d"),
        of(AlgorithmKind::SlidingWindow, "2500/400d"),
    ];
    let slot = slot(&store, &counters[0]);
    let (stop, asking) = (Arc::new(AtomicBool::new(false)), Arc::clone(&store));
    let (stopped, paying) = (Arc::clone(&stop), counters.clone());
    let callers = tokio::spawn(async move {
        let mut tally = Tally::default();
        while !stopped.load(Ordering::Relaxed) {
            let charges: Vec<_> = paying.iter().map(Counter::charge).collect();
            tally.add(asking.settle(&charges, None, &mut Verdicts::new()).await);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tally
    });
    let still = || Handle::current().block_on(tokio::time::sleep(Duration::from_millis(100)));
    migrate(&cluster, slot, still);
    counters[0].ask_until_answered(&store, Duration::from_secs(3)).await;
    stop.store(true, Ordering::Relaxed);
    let tally = callers.await.unwrap();
    // A command with keys on two nodes is refused; callers get that as a temporary error.
    tally.assert_errors_are(&[StoreErrorKind::Overloaded, StoreErrorKind::Unreachable]);
    let mut used = Vec::new();
    for counter in &counters {
        used.push(counter.used(&store).await);
    }
    assert_eq!(used.remove(0), tally.admitted + 1, "{tally:?}");
    assert!(used.iter().all(|used| *used == tally.admitted), "{used:?} {tally:?}");
    assert!(tally.admitted > 0 && tally.errors.contains_key("overloaded"), "{tally:?}");
}

/// Requests that arrive at the same moment share a call; that must not put them at a disadvantage
/// when their keys are on two nodes.
#[tokio::test]
async fn callers_of_different_keys_do_not_spoil_it_for_each_other() {
    let cluster = Arc::new(Cluster::start(3));
    let store = Arc::new(patient_store(&cluster.url()));
    let counters = counters_of_one_slot(12);
    let mut tally = Tally::default();
    ask_all_at_once(&store, &counters, &mut tally).await;
    let (steps, mut step) = tokio::sync::mpsc::unbounded_channel();
    let (go_on, gone_on) = std::sync::mpsc::channel();
    let (moved, slot) = (Arc::clone(&cluster), slot(&store, &counters[0]));
    let to = (cluster.node_of_slot(slot) + 1) % 3;
    let mover = std::thread::spawn(move || {
        moved.migrate_slot_with(slot, to, |step| {
            steps.send(step).unwrap();
            gone_on.recv().unwrap();
        });
    });
    let mut rounds = 1;
    while step.recv().await.is_some() {
        for _ in 0..10 {
            ask_all_at_once(&store, &counters, &mut tally).await;
            rounds += 1;
        }
        go_on.send(()).unwrap();
    }
    mover.join().unwrap();
    tally.assert_errors_are(&[]);
    assert_eq!(tally.admitted, 12 * rounds);
    for counter in &counters {
        assert_eq!(counter.used(&store).await, rounds);
    }
}

async fn ask_all_at_once(store: &Arc<RedisStore>, counters: &[Counter], tally: &mut Tally) {
    let mut callers = JoinSet::new();
    for counter in counters {
        let (store, counter) = (Arc::clone(store), *counter);
        callers.spawn(async move { counter.ask(&store).await });
    }
    callers.join_all().await.into_iter().for_each(|answer| tally.add(answer));
}
