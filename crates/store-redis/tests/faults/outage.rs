//! Redis is down, or goes down.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Span;
use tidegate_store::StoreErrorKind;
use tidegate_store_redis::{RedisConfig, RedisStore};
use tidegate_testkit::{Mode, Proxy, Redis};
use tokio::time::Instant;

use crate::support::load::Load;
use crate::support::{Counter, assert_kind, patient_store, store, store_within};

/// Service is back in about a second; a busy machine gets three.
const BACK: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn down_at_start_is_unreachable_within_the_deadline_and_exact_once_it_is_up() {
    let redis = Redis::start();
    redis.kill();
    let store = store(&redis.url());
    let five = Counter::long(5, 1);
    for _ in 0..50 {
        let start = Instant::now();
        let kind = five.ask(&store).await.unwrap_err().kind();
        // The latter if even a refusal takes longer than 10 ms.
        assert!(matches!(kind, StoreErrorKind::Unreachable | StoreErrorKind::Timeout), "{kind:?}");
        // That is the deadline; the rest is for a machine that does other things as well.
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }
    assert!(!store.is_available());
    five.ask_until(&store, StoreErrorKind::Unreachable).await;
    redis.start_again();
    // Both connections have to be there: the lane depends on the counter.
    for n in 10..18 {
        Counter::ample(n).ask_until_answered(&store, BACK).await;
    }
    assert!(store.is_available());
    let store = patient_store(&redis.url());
    for _ in 0..5 {
        assert!(five.ask(&store).await.unwrap());
    }
    assert!(!five.ask(&store).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_load_and_started_again_is_served_again_by_itself() {
    let redis = Redis::start();
    let store = Arc::new(store_within(&redis.url(), Duration::from_millis(50)));
    let counters: Vec<_> = (0..16).map(Counter::ample).collect();
    counters[0].ask_until_answered(&store, BACK).await;
    let load = Load::start(&store, &counters, 4, Duration::from_millis(2));
    for _ in 0..3 {
        load.go_on_for(500).await;
        redis.kill();
        counters[0].ask_until(&store, StoreErrorKind::Unreachable).await;
        redis.start_again();
        for counter in &counters {
            counter.ask_until_answered(&store, BACK).await;
        }
    }
    load.go_on_for(500).await;
    for tally in load.end().await {
        use StoreErrorKind::{Lost, Timeout, Unreachable};
        tally.assert_errors_are(&[Lost, Timeout, Unreachable]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_reply_is_lost_is_a_timeout_and_counts_once() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let store = store_within(&proxy.url(), Duration::from_millis(100));
    let (probe, counted) = (Counter::ample(1), Counter::long(100, 2));
    probe.ask_until_answered(&store, BACK).await;
    counted.ask_until_answered(&store, BACK).await;
    proxy.set_mode(Mode::DropReplies);
    let error = assert_kind(counted.ask(&store).await, StoreErrorKind::Timeout);
    assert!(error.may_have_settled());
    proxy.set_mode(Mode::Reset);
    probe.ask_until_answered(&store, BACK).await;
    // Long enough for anything that would be sent again to arrive.
    probe.ask_until_answered(&store, BACK).await;
    assert_eq!(counted.used(&patient_store(&redis.url())).await, 2);
}

/// Redis answers in order, and only the order shows which call is answered: after a lost answer, each
/// call would get the answer to the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_lost_reply_nobody_gets_the_answer_to_another_call() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let config: RedisConfig = proxy.url().parse().unwrap();
    let config = config.connect_timeout(BACK).connections(1);
    let rlaas = || "ratelimiter:{entity}:{window_start_ms}".parse().unwrap();
    for builder in [
        RedisStore::builder(config.clone()),
        RedisStore::builder(config).key_format(rlaas()).unwrap(),
    ] {
        let store = builder.deadline(Duration::from_millis(500)).build();
        let (full, ample) = (Counter::long(1, 1), Counter::ample(2));
        full.ask_until_answered(&store, BACK).await;
        for n in 3..6 {
            ample.ask_until_answered(&store, BACK).await;
            proxy.set_mode(Mode::DropReplies);
            assert_kind(ample.ask(&store).await, StoreErrorKind::Timeout);
            proxy.set_mode(Mode::Forward);
            let later = async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Counter::ample(n).ask(&store).await
            };
            let (denied, _) = tokio::join!(full.ask(&store), later);
            assert!(!matches!(denied, Ok(true)), "admitted by another's answer");
        }
        ample.ask_until_answered(&store, BACK).await;
        assert!(!full.ask(&store).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_cut_in_two_is_an_error_and_counted_once() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let direct = patient_store(&redis.url());
    for (n, length) in (100..).zip([0, 1, 3, 7]) {
        let store = store_within(&proxy.url(), Duration::from_millis(500));
        let counted = Counter::long(100, n);
        counted.ask_until_answered(&store, BACK).await;
        proxy.set_mode(Mode::Truncate(length));
        let error = counted.ask(&store).await.unwrap_err();
        let open = error.may_have_settled() || error.kind() == StoreErrorKind::Protocol;
        assert!(open, "{error}");
        proxy.set_mode(Mode::Forward);
        assert_eq!(counted.used(&direct).await, 2, "{length} bytes");
        counted.ask_until_answered(&store, BACK).await;
        assert_eq!(counted.used(&direct).await, 3, "{length} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_answers_too_late_costs_nobody_more_than_the_deadline() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let store = store_within(&proxy.url(), Duration::from_millis(20));
    let counter = Counter::ample(1);
    counter.ask_until_answered(&store, BACK).await;
    proxy.set_mode(Mode::Delay(Duration::from_millis(60)));
    let start = Instant::now();
    let mut waited = 0;
    while start.elapsed() < Duration::from_secs(1) {
        waited += u32::from(store.is_available());
        let _ = counter.ask(&store).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // As many as it takes to open the breaker: a probe that is answered late does not close it.
    assert!(waited < 10, "{waited} callers waited in a second");
    assert!(!store.is_available());
    proxy.set_mode(Mode::Forward);
    counter.ask_until_answered(&store, BACK).await;
}

/// A caller without time left is not evidence against Redis.
#[tokio::test]
async fn callers_without_patience_do_not_open_the_breaker() {
    let redis = Redis::start();
    let store = store(&redis.url());
    let counter = Counter::ample(1);
    counter.ask_until_answered(&store, BACK).await;
    for _ in 0..50 {
        assert_kind(counter.ask_within(&store, Span::ZERO).await, StoreErrorKind::Timeout);
    }
    assert!(store.is_available());
}
