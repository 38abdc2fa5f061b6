//! One server that works.

use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tidegate_testkit::{FakeRedis, Proxy, Redis, wait_until};
use tokio::runtime;
use tokio::task::JoinSet;

use super::*;

#[tokio::test]
async fn a_script_that_the_server_forgot_is_sent_again_as_text() {
    let redis = Redis::start();
    let link = link(&redis.url());
    for expected in 1..=20 {
        assert_eq!(count(&link, "k").await.unwrap(), expected);
        redis.command(&["SCRIPT", "FLUSH"]).or_panic();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_flushed_in_a_loop_and_nobody_notices() {
    let redis = Redis::start();
    let link = std::sync::Arc::new(link(&redis.url()));
    let mut callers = JoinSet::new();
    for lane in 0..8 {
        let link = std::sync::Arc::clone(&link);
        callers.spawn(async move {
            for _ in 0..500 {
                count_on(&link, "k", lane).await.unwrap();
            }
        });
    }
    while !callers.is_empty() {
        redis.command(&["SCRIPT", "FLUSH"]).or_panic();
        while let Some(done) = callers.try_join_next() {
            done.unwrap();
        }
    }
    assert_eq!(count(&link, "k").await.unwrap(), 8 * 500 + 1);
}

#[tokio::test]
async fn calls_of_one_lane_keep_their_order() {
    let redis = Redis::start();
    let link = link(&redis.url());
    count(&link, "k").await.unwrap();
    let mut calls: Vec<_> = (0..500).map(|_| Box::pin(count(&link, "k"))).collect();
    // Each is sent when it is first polled.
    for call in &mut calls {
        let _ = std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx))).await;
    }
    for (index, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), i64::try_from(index).unwrap() + 2);
    }
}

#[tokio::test]
async fn a_lane_is_a_connection_and_none_is_made_before_it_is_used() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let link = link_of(config(&proxy.url()).connections(3));
    assert_eq!(proxy.connections(), 0);
    for lane in 0..9 {
        count_on(&link, "k", lane).await.unwrap();
        assert_eq!(proxy.connections(), (lane as u64 + 1).min(3));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_at_once_share_one_dial() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let link = std::sync::Arc::new(link(&proxy.url()));
    let mut callers = JoinSet::new();
    for _ in 0..100 {
        let link = std::sync::Arc::clone(&link);
        callers.spawn(async move { count(&link, "k").await });
    }
    for done in callers.join_all().await {
        done.unwrap();
    }
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_end_with_the_link() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let link = link(&proxy.url());
    count_on(&link, "k", 0).await.unwrap();
    count_on(&link, "k", 1).await.unwrap();
    assert_eq!(proxy.open_connections(), 2);
    drop(link);
    wait_until("connections to close", PATIENCE, || proxy.open_connections() == 0);
}

#[test]
fn a_link_outlives_a_runtime() {
    let redis = Redis::start();
    let link = link(&redis.url());
    for expected in 1..=3 {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(runtime.block_on(count(&link, "k")).unwrap(), expected);
    }
}

#[tokio::test]
async fn a_unix_socket_can_be_used() {
    let redis = Redis::builder().unix_socket().start();
    let socket = redis.unix_socket().unwrap();
    let there = link(&format!("redis+unix://{}", socket.display()));
    assert_eq!(count(&there, "k").await.unwrap(), 1);
    let nowhere = link("redis+unix:///nonexistent/redis.sock");
    assert_failed(count(&nowhere, "k").await, StoreErrorKind::Unreachable, CallOutcome::NotRun);
}

#[tokio::test]
async fn users_log_in_and_choose_their_database() {
    let redis =
        Redis::builder().password("default-secret").user("limiter on >p@ss:w/d ~* +@all").start();
    let link = link(&format!("redis://limiter:p%40ss%3Aw%2Fd@127.0.0.1:{}/3", redis.port()));
    assert_eq!(count(&link, "k").await.unwrap(), 1);
    let mut connection = redis.connect().unwrap();
    connection.call(&["SELECT", "3"]).unwrap().or_panic();
    assert_eq!(connection.call(&["GET", "k"]).unwrap().text(), "1");
    assert!(connection.call(&["CLIENT", "LIST"]).unwrap().text().contains("name=tidegate"));
}

#[tokio::test]
async fn attack_15_a_password_comes_from_a_file_that_is_read_for_each_connection() {
    let redis = Redis::builder().user("limiter on >first ~* +@all").start();
    let scratch = tidegate_testkit::Scratch::new();
    let file = scratch.write("password", "first\n");
    let url = format!("redis://limiter@127.0.0.1:{}", redis.port());
    let there = || link_of(config(&url).password_file(&file));
    assert_eq!(count(&there(), "k").await.unwrap(), 1);
    let mut connection = redis.connect().unwrap();
    connection.call(&["ACL", "SETUSER", "limiter", ">second", "<first"]).unwrap().or_panic();
    std::fs::write(&file, "second").unwrap();
    assert_eq!(count(&there(), "k").await.unwrap(), 2);
    std::fs::write(&file, "\n").unwrap();
    assert_failed(count(&there(), "k").await, StoreErrorKind::Misconfigured, CallOutcome::NotRun);
}

#[tokio::test]
async fn a_server_without_resp3_can_be_used() {
    let fake = FakeRedis::start(|command| match command[0].as_slice() {
        b"HELLO" => Some(b"-ERR unknown command 'HELLO'\r\n".to_vec()),
        b"EVALSHA" => Some(b":7\r\n".to_vec()),
        _ => None,
    });
    assert_eq!(count(&link(&fake.url()), "k").await.unwrap(), 7);
    let with_password = fake.url().replace("://", "://me:pw@");
    assert_eq!(count(&link(&with_password), "k").await.unwrap(), 7);
    let logins = fake.seen().into_iter().filter(|command| command[0] == b"AUTH");
    assert_eq!(logins.collect::<Vec<_>>(), [[b"AUTH".to_vec(), b"me".to_vec(), b"pw".to_vec()]]);
}

#[tokio::test]
async fn names_are_looked_up() {
    let redis = Redis::start();
    let named = link(&format!("redis://localhost:{}", redis.port()));
    assert_eq!(count(&named, "k").await.unwrap(), 1);
    let patient = config("redis://nonexistent.invalid").connect_timeout(Duration::from_secs(5));
    let nowhere = link_of(patient);
    assert_failed(count(&nowhere, "k").await, StoreErrorKind::Unreachable, CallOutcome::NotRun);
}

#[tokio::test]
async fn it_tells_whether_counters_may_be_evicted() {
    let redis = Redis::start();
    let link = link(&redis.url());
    assert!(!link.memory(0, PATIENCE).await.unwrap().may_evict());
    redis.command(&["CONFIG", "SET", "maxmemory", "100mb"]).or_panic();
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).or_panic();
    let memory = link.memory(0, PATIENCE).await.unwrap();
    assert_eq!((memory.limit, memory.policy.as_str()), (100 << 20, "allkeys-lru"));
    assert!(memory.may_evict());
}

#[tokio::test]
async fn ping_is_answered() {
    let redis = Redis::start();
    let link = link(&redis.url());
    link.memory(0, PATIENCE).await.unwrap();
    assert!(!link.is_cluster());
}
