//! Servers that refuse: the right kind of error, no storm of connections, and service once they
//! accept.

use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tidegate_store_redis::RedisStore;
use tidegate_testkit::{Proxy, Redis};
use tokio::time::{Instant, sleep};

use crate::support::{Counter, assert_kind, patient_store, store_within};

const BACK: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demoted_primary_is_read_only_and_welcome_again_once_promoted() {
    let redis = Redis::start();
    let store = patient_store(&redis.url());
    let counter = Counter::long(10, 1);
    for _ in 0..3 {
        assert!(counter.ask(&store).await.unwrap());
    }
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]).or_panic();
    assert_kind(counter.ask(&store).await, StoreErrorKind::ReadOnly);
    for _ in 0..100 {
        assert_kind(counter.ask(&store).await, StoreErrorKind::ReadOnly);
        sleep(Duration::from_millis(1)).await;
    }
    redis.command(&["REPLICAOF", "NO", "ONE"]).or_panic();
    counter.ask_until_answered(&store, BACK).await;
    assert_eq!(counter.used(&store).await, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_is_full_and_counts_again_once_there_is_room() {
    let redis = Redis::builder().arg("maxmemory-policy", "noeviction").start();
    let store = patient_store(&redis.url());
    let (counter, other) = (Counter::long(10, 1), Counter::long(10, 2));
    assert!(counter.ask(&store).await.unwrap());
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).or_panic();
    assert_kind(counter.ask(&store).await, StoreErrorKind::Full);
    assert_kind(other.ask(&store).await, StoreErrorKind::Full);
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).or_panic();
    counter.ask_until_answered(&store, BACK).await;
    other.ask_until_answered(&store, BACK).await;
    assert_eq!((counter.used(&store).await, other.used(&store).await), (2, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_log_in_is_misconfigured_and_does_not_try_in_a_loop() {
    let redis = Redis::builder().password("right").start();
    let proxy = Proxy::start(redis.address());
    for login in ["", ":wrong@", "nobody:right@"] {
        let store = patient_store(&proxy.url().replace("://", &format!("://{login}")));
        let error = assert_kind(Counter::ample(1).ask(&store).await, StoreErrorKind::Misconfigured);
        assert!(!error.to_string().contains("wrong@"), "{error}");
        assert_no_storm(&proxy, &store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_run_scripts_is_misconfigured_and_does_not_try_in_a_loop() {
    use StoreErrorKind::{Misconfigured, Other};
    for (rules, kind) in [
        ("poor on >pw ~* +@connection", Misconfigured),
        ("poor on >pw ~other* +@all", Misconfigured),
        // The script may run, and then not be allowed what it has to do: Redis 7.0 has no code for
        // that.
        ("poor on >pw ~* +eval +evalsha", Other),
        ("poor on >pw ~* +eval +evalsha +time +mget", Other),
    ] {
        let redis = Redis::builder().user(rules).start();
        let proxy = Proxy::start(redis.address());
        let store = patient_store(&proxy.url().replace("://", "://poor:pw@"));
        let error = Counter::ample(1).ask(&store).await.unwrap_err();
        let kinds = [kind, Misconfigured];
        assert!(kinds.contains(&error.kind()), "{rules}: {error}");
        assert_no_storm(&proxy, &store).await;
    }
}

/// A fault, how it begins and ends, and which error callers get as long as it lasts.
type Cause<'a> = (&'a [&'a str], &'a [&'a str], StoreErrorKind, &'a str);

const CAUSES: [Cause<'_>; 4] = [
    (
        &["CONFIG", "SET", "maxmemory", "1"],
        &["CONFIG", "SET", "maxmemory", "0"],
        StoreErrorKind::Full,
        "OOM",
    ),
    (
        &["ACL", "SETUSER", "default", "-evalsha", "-eval"],
        &["ACL", "SETUSER", "default", "+@all"],
        StoreErrorKind::Misconfigured,
        "NOPERM",
    ),
    (
        &["REPLICAOF", "127.0.0.1", "1"],
        &["REPLICAOF", "NO", "ONE"],
        StoreErrorKind::ReadOnly,
        "READONLY",
    ),
    (
        &["CONFIG", "SET", "min-replicas-to-write", "1"],
        &["CONFIG", "SET", "min-replicas-to-write", "0"],
        StoreErrorKind::ReadOnly,
        "NOREPLICAS",
    ),
];

/// Once the breaker is open nothing is sent, and callers still get the cause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cause_is_told_for_as_long_as_it_lasts() {
    for (begins, ends, kind, code) in CAUSES {
        let redis = Redis::start();
        let store = patient_store(&redis.url());
        let counter = Counter::ample(1);
        counter.ask_until_answered(&store, BACK).await;
        redis.command(begins).or_panic();
        let (start, mut unasked) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(800) {
            unasked += u32::from(!store.is_available());
            let error = assert_kind(counter.ask(&store).await, kind);
            assert!(error.to_string().contains(code), "{error}");
            sleep(Duration::from_millis(2)).await;
        }
        assert!(unasked > 20, "{code}: the breaker was open {unasked} times");
        redis.command(ends).or_panic();
        counter.ask_until_answered(&store, BACK).await;
    }
}

/// One cause follows the other before the breaker has closed: the probe finds out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cause_that_takes_the_place_of_another_is_told() {
    let redis = Redis::start();
    let store = patient_store(&redis.url());
    let counter = Counter::ample(1);
    counter.ask_until_answered(&store, BACK).await;
    for (begins, ..) in CAUSES {
        redis.command(begins).or_panic();
    }
    // Several causes hold at a time; the probe meets them in this order.
    for code in ["NOPERM", "READONLY", "NOREPLICAS", "OOM"] {
        let (_, ends, kind, _) = CAUSES.into_iter().find(|cause| cause.3 == code).unwrap();
        let start = Instant::now();
        loop {
            let error = counter.ask(&store).await.unwrap_err();
            if error.kind() == kind && error.to_string().contains(code) {
                break;
            }
            assert!(start.elapsed() < BACK, "{code}: {error}");
            sleep(Duration::from_millis(2)).await;
        }
        redis.command(ends).or_panic();
    }
    counter.ask_until_answered(&store, BACK).await;
}

/// Half a second of callers, with few connections for all of them.
async fn assert_no_storm(proxy: &Proxy, store: &RedisStore) {
    let (start, before) = (Instant::now(), proxy.connections());
    while start.elapsed() < Duration::from_millis(500) {
        assert!(Counter::ample(1).ask(store).await.is_err());
        sleep(Duration::from_millis(1)).await;
    }
    let dials = proxy.connections() - before;
    assert!(dials < 20, "{dials} connections in half a second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_with_too_many_clients_is_overloaded_and_recovers() {
    let redis = Redis::start();
    let mut occupant = redis.connect().unwrap();
    occupant.call(&["CONFIG", "SET", "maxclients", "1"]).unwrap().or_panic();
    let store = store_within(&redis.url(), Duration::from_secs(2));
    let counter = Counter::long(10, 1);
    for _ in 0..50 {
        let kind = counter.ask(&store).await.unwrap_err().kind();
        assert!(matches!(kind, StoreErrorKind::Overloaded | StoreErrorKind::Unreachable));
        sleep(Duration::from_millis(1)).await;
    }
    occupant.call(&["CONFIG", "SET", "maxclients", "100"]).unwrap().or_panic();
    counter.ask_until_answered(&store, BACK).await;
    assert_eq!(counter.used(&store).await, 1);
}
