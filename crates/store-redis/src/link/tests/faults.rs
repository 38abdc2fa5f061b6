//! Servers and networks that fail.

use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tidegate_testkit::{FakeRedis, Mode, Proxy, Redis};
use tokio::time::{Instant, sleep, timeout};

use super::*;

/// A call with a deadline, as the store makes it.
async fn count_within(link: &RedisLink, key: &str, limit: Duration) -> Result<i64, RedisFailure> {
    timeout(limit, count(link, key)).await.unwrap_or_else(|_| {
        link.record_timeout(tidegate_testkit::slot_of(key.as_bytes()), 0);
        Err(RedisFailure::unknown(StoreErrorKind::Timeout, "deadline"))
    })
}

/// Resets all connections, and waits until that has arrived, which we cannot speed up.
async fn reset(proxy: &Proxy) {
    proxy.set_mode(Mode::Reset);
    sleep(Duration::from_millis(100)).await;
}

const DEADLINE: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn down_at_first_and_up_later() {
    let redis = Redis::start();
    redis.kill();
    let link = link(&redis.url());
    for _ in 0..10 {
        let start = Instant::now();
        assert_failed(count(&link, "k").await, StoreErrorKind::Unreachable, CallOutcome::NotRun);
        assert!(start.elapsed() < Duration::from_millis(200));
    }
    redis.start_again();
    assert_eq!(count_soon(&link, "k", Duration::from_millis(1_500)).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_started_again() {
    let redis = Redis::start();
    let link = link(&redis.url());
    for _ in 0..3 {
        assert_eq!(count_soon(&link, "k", Duration::from_millis(1_500)).await, 1);
        redis.kill();
        sleep(Duration::from_millis(100)).await;
        assert_failed(count(&link, "k").await, StoreErrorKind::Unreachable, CallOutcome::NotRun);
        redis.start_again();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drop_is_noticed_before_the_next_call() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let link = link(&proxy.url());
    for expected in 1..=3 {
        assert_eq!(count(&link, "k").await.unwrap(), expected);
        sleep(Duration::from_millis(1_100)).await;
        reset(&proxy).await;
    }
    assert_eq!(count(&link, "k").await.unwrap(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_reply_is_lost_is_not_sent_again() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let link = link(&proxy.url());
    assert_eq!(count(&link, "k").await.unwrap(), 1);
    proxy.set_mode(Mode::DropReplies);
    assert_failed(count(&link, "k").await, StoreErrorKind::Timeout, CallOutcome::Unknown);
    reset(&proxy).await;
    assert_eq!(count_soon(&link, "k", Duration::from_secs(2)).await, 3);
    proxy.set_mode(Mode::Truncate(1));
    let failure = count(&link, "k").await.unwrap_err();
    assert_eq!(failure.outcome, CallOutcome::Unknown, "{failure}");
    sleep(Duration::from_millis(100)).await;
    proxy.set_mode(Mode::Forward);
    assert_eq!(count_soon(&link, "k", Duration::from_secs(2)).await, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_connection_breaks_is_lost() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let link = link(&proxy.url());
    assert_eq!(count(&link, "k").await.unwrap(), 1);
    proxy.set_mode(Mode::DropReplies);
    let (result, ()) = tokio::join!(count(&link, "k"), async {
        sleep(Duration::from_millis(50)).await;
        proxy.set_mode(Mode::Reset);
    });
    assert_failed(result, StoreErrorKind::Lost, CallOutcome::Unknown);
    // The next call may meet a broken connection too, on a machine that is too busy to notice in time.
    // It is lost in the same way, and may have run.
    let mut lost = 0;
    let again = async {
        loop {
            match count(&link, "k").await {
                Ok(count) => return count,
                Err(failure) if failure.outcome == CallOutcome::NotRun => {}
                Err(failure) => {
                    assert_eq!(failure.kind, StoreErrorKind::Lost, "{failure}");
                    lost += 1;
                }
            }
            sleep(Duration::from_millis(2)).await;
        }
    };
    let count = timeout(PATIENCE, again).await.expect("a connection");
    assert!((3..=3 + lost).contains(&count), "{count} after {lost} lost calls");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_not_understood_and_the_connection_replaced() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    for garbage in ["\0\0\0\0", "HTTP/1.1 400 Bad Request\r\n\r\n", "$x\r\n", ":x\r\n"] {
        let link = link(&proxy.url());
        count(&link, "k").await.unwrap();
        proxy.set_mode(Mode::Garbage(garbage.into()));
        assert_failed(count(&link, "k").await, StoreErrorKind::Protocol, CallOutcome::Unknown);
        sleep(Duration::from_millis(30)).await;
        // A server that answers with garbage is not a Redis, or not yet.
        let failure = count(&link, "k").await.unwrap_err();
        assert_eq!(failure.outcome, CallOutcome::NotRun, "{failure}");
        proxy.set_mode(Mode::Forward);
        count_soon(&link, "k", Duration::from_secs(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_is_given_up_and_found_again() {
    let redis = Redis::start();
    let link = link(&redis.url());
    assert_eq!(count(&link, "k").await.unwrap(), 1);
    redis.pause();
    for _ in 0..3 {
        let result = count_within(&link, "k", DEADLINE).await;
        assert_failed(result, StoreErrorKind::Timeout, CallOutcome::Unknown);
    }
    sleep(Duration::from_millis(100)).await;
    // From now on no caller waits, and nothing is sent that would run later.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        let asked = Instant::now();
        let failure = count_within(&link, "k", DEADLINE).await.unwrap_err();
        assert_eq!(failure.outcome, CallOutcome::NotRun, "{failure}");
        assert!(asked.elapsed() < DEADLINE);
        sleep(Duration::from_millis(1)).await;
    }
    redis.resume();
    // One call that was answered, three that were run late, and this one.
    assert_eq!(count_soon(&link, "k", Duration::from_millis(500)).await, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_hangs_is_replaced_when_the_server_does_not() {
    let fake = FakeRedis::start_with_a_silent_connection(|_| Some(b":1\r\n".to_vec()));
    let link = link(&fake.url());
    for _ in 0..3 {
        let result = count_within(&link, "k", DEADLINE).await;
        assert_failed(result, StoreErrorKind::Timeout, CallOutcome::Unknown);
    }
    assert_eq!(count_soon(&link, "k", Duration::from_secs(1)).await, 1);
}

#[tokio::test]
async fn a_missed_deadline_now_and_then_is_forgiven() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let link = link(&proxy.url());
    for expected in 1..=20 {
        assert_eq!(count(&link, "k").await.unwrap(), expected);
        link.record_timeout(0, 0);
        link.record_timeout(0, 0);
    }
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_up_is_not_dialed_in_a_loop() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let link = link(&proxy.url());
    proxy.set_mode(Mode::Refuse);
    for _ in 0..750 {
        assert_failed(count(&link, "k").await, StoreErrorKind::Unreachable, CallOutcome::NotRun);
        sleep(Duration::from_millis(1)).await;
    }
    assert!(proxy.connections() < 30, "{} dials", proxy.connections());
    proxy.set_mode(Mode::Forward);
    assert_eq!(count_soon(&link, "k", Duration::from_secs(2)).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_greet_is_given_up_in_time() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    proxy.set_mode(Mode::Blackhole);
    let link = link_of(proxy.url().parse().unwrap());
    let start = Instant::now();
    assert_failed(count(&link, "k").await, StoreErrorKind::Unreachable, CallOutcome::NotRun);
    assert!(start.elapsed() < Duration::from_millis(400), "{:?}", start.elapsed());
    assert!(start.elapsed() >= Duration::from_millis(250));
    let start = Instant::now();
    assert_failed(count(&link, "k").await, StoreErrorKind::Unreachable, CallOutcome::NotRun);
    assert!(start.elapsed() < Duration::from_millis(20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_connections_are_replaced_and_nobody_notices() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let link = link_of(config(&proxy.url()).max_age(Duration::from_millis(100)));
    let start = Instant::now();
    let mut expected = 0;
    while start.elapsed() < Duration::from_secs(1) {
        expected += 1;
        assert_eq!(count(&link, "k").await.unwrap(), expected);
    }
    let dials = proxy.connections();
    assert!((3..20).contains(&dials), "{dials} dials");
    // An old connection is better than none.
    proxy.set_mode(Mode::Refuse);
    for _ in 0..300 {
        expected += 1;
        assert_eq!(count(&link, "k").await.unwrap(), expected);
        sleep(Duration::from_millis(1)).await;
    }
    assert!(proxy.connections() - dials < 30);
    tidegate_testkit::wait_until("old ones to go", PATIENCE, || proxy.open_connections() == 1);
}
