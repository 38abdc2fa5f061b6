//! Limits that no script decides: instances that contend for their counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::{AlgorithmKind, Cost, Fingerprint};
use tidegate_store::{Store, StoreErrorKind, Verdicts};
use tidegate_testkit::{Cluster, FakeRedis, Redis, Reply};

use crate::support::{Counter, assert_kind, patient_store, store_within};

const LIMIT: u64 = 200;

/// Counters of one subject: one without a twin, one with.
fn counters() -> [Counter; 2] {
    let of = |kind| Counter::of(kind, &format!("{LIMIT}/400d"), Fingerprint::new(3, 5));
    [of(AlgorithmKind::SteppedWindow), of(AlgorithmKind::FixedWindow)]
}

/// Every instance has its own connections, so nothing but Redis keeps their requests apart.
async fn contend(url: &str) {
    let [stepped, fixed] = counters();
    let instances = (0..6).map(|_| {
        let store = Arc::new(patient_store(url));
        tokio::spawn(async move {
            let callers = (0..20_u64).map(|caller| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let mut admitted = 0;
                    for round in 0..5 {
                        let cost = Cost::new(1 + (caller + round) % 2).unwrap();
                        let charges = [stepped.charge_of(cost), fixed.charge_of(cost)];
                        let passes =
                            store.settle(&charges, None, &mut Verdicts::new()).await.unwrap();
                        admitted += if passes { cost.get() } else { 0 };
                    }
                    admitted
                })
            });
            let mut admitted = 0;
            for caller in callers.collect::<Vec<_>>() {
                admitted += caller.await.unwrap();
            }
            admitted
        })
    });
    let mut admitted = 0;
    for instance in instances.collect::<Vec<_>>() {
        admitted += instance.await.unwrap();
    }
    let store = patient_store(url);
    assert_eq!(admitted, LIMIT);
    assert_eq!((stepped.used(&store).await, fixed.used(&store).await), (LIMIT, LIMIT));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_contend_for_a_counter_admit_exactly_the_limit() {
    contend(&Redis::start().url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_they_do_on_a_cluster() {
    contend(&Cluster::start(3).url()).await;
}

/// A denial by either limit leaves both as they were, and a refund or a reset concerns one.
#[tokio::test]
async fn limits_with_and_without_a_twin_are_paid_together_or_not_at_all() {
    let redis = Redis::start();
    let store = patient_store(&redis.url());
    let [stepped, fixed] = counters();
    let of = |cost| Cost::new(cost).unwrap();
    let settle = async |one, other| {
        let charges = [stepped.charge_of(of(one)), fixed.charge_of(of(other))];
        store.settle(&charges, None, &mut Verdicts::new()).await.unwrap()
    };
    let used = async || (stepped.used(&store).await, fixed.used(&store).await);
    assert!(settle(150, 1).await);
    assert!(!settle(51, 1).await && !settle(1, LIMIT).await);
    assert_eq!(used().await, (150, 1));
    // The twin goes on from what was computed, and the other way round.
    assert!(fixed.ask(&store).await.unwrap() && stepped.ask(&store).await.unwrap());
    assert!(settle(1, 10).await);
    assert_eq!(used().await, (152, 12));
    store.refund(&stepped.charge_of(of(50))).await.unwrap();
    store.refund(&fixed.charge_of(of(2))).await.unwrap();
    assert_eq!(used().await, (102, 10));
    store.reset(&stepped.charge()).await.unwrap();
    assert_eq!(used().await, (0, 10));
}

/// A server on which others always come first.
fn busy(calls: Arc<AtomicUsize>) -> FakeRedis {
    FakeRedis::start(move |command| {
        if !command[0].starts_with(b"EVAL") {
            return None;
        }
        calls.fetch_add(1, Ordering::SeqCst);
        let mark = String::from_utf8_lossy(command.last()?).parse().ok()?;
        // After the script, the number of keys and the key comes the list of groups.
        let mut reply = if command[4] == [0x90] { Vec::new() } else { vec![Reply::Integer(0)] };
        reply.extend([Reply::Bulk(None), Reply::Integer(1_700_000_000_000_000)]);
        reply.push(Reply::Integer(mark));
        Some(Reply::Array(Some(reply)).to_bytes())
    })
}

#[tokio::test]
async fn who_always_comes_too_late_gives_up_and_has_taken_nothing() {
    let calls = Arc::new(AtomicUsize::new(0));
    let fake = busy(Arc::clone(&calls));
    let store = store_within(&fake.url(), Duration::from_secs(60));
    let counter = Counter::new(AlgorithmKind::SteppedWindow, "10/minute", 1);
    for _ in 0..10 {
        let error = assert_kind(counter.ask(&store).await, StoreErrorKind::Overloaded);
        assert!(!error.may_have_settled(), "{error}");
        // Redis answers, so it is not Redis that fails.
        assert!(store.is_available());
    }
    let calls = calls.load(Ordering::SeqCst);
    // One that reads, and 64 that try.
    assert_eq!(calls, 10 * 65);
}
