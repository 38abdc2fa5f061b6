//! No key outlives its purpose.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_core::{AlgorithmKind, Cost};
use tidegate_store::{Store, Verdicts};
use tidegate_store_redis::RedisStore;
use tidegate_testkit::{Connection, Redis, Reply};
use tokio::time::{Instant, sleep};

use crate::support::{Counter, patient_store};

/// How long a key may live beyond its limit's period.
const GRACE: i64 = 1_000;

/// By the real clock of Redis: whatever was requested, every key expires.
#[tokio::test]
async fn every_key_expires_within_its_period_after_a_random_run() {
    let redis = Redis::start();
    let store = patient_store(&redis.url());
    let counters = random_counters();
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..3_000 {
        random_operation(&store, &counters, &mut random).await;
    }
    let names = counters.iter().map(|counter| (store.key_name(&counter.charge()), counter));
    let names: HashMap<_, _> = names.collect();
    let mut connection = redis.connect().unwrap();
    let keys = connection.call(&["KEYS", "*"]).unwrap().or_panic();
    assert!(keys.items().len() > 12, "{} keys", keys.items().len());
    for key in keys.items() {
        let Reply::Bulk(Some(key)) = key else { panic!("{key:?}") };
        let period = i64::try_from(names[key].limit().period().as_micros() / 1_000).unwrap();
        // Some are gone by now, as they should be.
        if let Some(left) = time_to_live(&mut connection, key) {
            let limit = names[key].limit();
            assert!((0..=period + GRACE).contains(&left), "{limit}: {left} ms of {period}");
        }
    }
}

fn random_counters() -> Vec<Counter> {
    let quotas = ["1/1s", "3/7s", "100/minute", "5/hour", "100000/1h", "7/400d", "2/20ms"];
    let of_kind = |kind| {
        let counter = move |(n, quota): (u64, &&str)| Counter::new(kind, quota, n);
        (0..).zip(&quotas).map(counter).collect::<Vec<_>>()
    };
    AlgorithmKind::ALL.iter().flat_map(|kind| of_kind(*kind)).collect()
}

async fn random_operation(store: &RedisStore, counters: &[Counter], random: &mut fastrand::Rng) {
    let mut charge = || {
        let counter = &counters[random.usize(..counters.len())];
        counter.charge_of(Cost::new(random.u64(0..8)).unwrap())
    };
    let (first, second) = (charge(), charge());
    match random.u8(..10) {
        0 => store.refund(&first).await.unwrap(),
        1 => store.reset(&first).await.unwrap(),
        2 => drop(store.settle(&[first, second], None, &mut Verdicts::new()).await.unwrap()),
        _ => drop(store.settle(&[first], None, &mut Verdicts::new()).await.unwrap()),
    }
}

/// The time to live in milliseconds; `None` if the key is gone.
fn time_to_live(connection: &mut Connection, key: &[u8]) -> Option<i64> {
    match connection.call(&[b"PTTL", key]).unwrap().integer() {
        -2 => None,
        -1 => panic!("{} never expires", key.escape_ascii()),
        left => Some(left),
    }
}

/// A key without a time to live, as after `PERSIST` or a restored dump. The next admission repairs
/// that; for a fixed window, the first one of the next window, since until then it only adds.
#[tokio::test]
async fn a_key_that_was_made_to_last_for_ever_expires_again_while_it_is_used() {
    let redis = Redis::start();
    let store = patient_store(&redis.url());
    let mut connection = redis.connect().unwrap();
    for (n, kind) in (0..).zip(AlgorithmKind::ALL) {
        let counter = Counter::new(*kind, "10000/1s", n);
        let key = store.key_name(&counter.charge());
        assert!(counter.ask(&store).await.unwrap());
        connection.call(&[&b"PERSIST"[..], &key]).unwrap().or_panic();
        let (start, mut left) = (Instant::now(), -1);
        while left < 0 {
            assert!(start.elapsed() < Duration::from_secs(3), "{kind}: it still lasts for ever");
            assert!(counter.ask(&store).await.unwrap());
            left = connection.call(&[&b"PTTL"[..], &key]).unwrap().integer();
            sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Redis needs the least memory for integers, also for a counter with many requests.
#[tokio::test]
async fn the_usual_counters_are_integers() {
    let redis = Redis::start();
    let store = patient_store(&redis.url());
    for (kind, quota) in [
        (AlgorithmKind::FixedWindow, "1000/hour"),
        (AlgorithmKind::SlidingWindow, "1000/hour"),
        (AlgorithmKind::TokenBucket, "60/hour"),
        (AlgorithmKind::TokenBucket, "10/day burst 100"),
    ] {
        let counter = Counter::new(kind, quota, 1);
        for _ in 0..5 {
            assert!(counter.ask(&store).await.unwrap());
            let encoding = redis.command(&[
                b"OBJECT".as_slice(),
                b"ENCODING",
                &store.key_name(&counter.charge()),
            ]);
            assert_eq!(encoding, Reply::Bulk(Some(b"int".to_vec())), "{kind} {quota}");
        }
    }
}
