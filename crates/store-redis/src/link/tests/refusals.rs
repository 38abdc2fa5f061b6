//! Servers that refuse calls or logins.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tidegate_testkit::{FakeRedis, Proxy, Redis};
use tokio::time::sleep;

use super::*;

/// Answers scripts with these, one after the other, and with 1 from then on.
fn fake(answers: &'static [&'static str]) -> FakeRedis {
    let next = AtomicUsize::new(0);
    FakeRedis::start(move |command| {
        let script = matches!(command[0].as_slice(), b"EVALSHA" | b"EVAL");
        let answer = |at: usize| answers.get(at).copied().unwrap_or(":1");
        script.then(|| format!("{}\r\n", answer(next.fetch_add(1, Ordering::SeqCst))).into_bytes())
    })
}

fn calls(fake: &FakeRedis) -> usize {
    fake.seen().iter().filter(|command| command[0].starts_with(b"EVAL")).count()
}

#[tokio::test]
async fn a_temporary_refusal_is_retried_once() {
    for refusal in ["-LOADING x", "-TRYAGAIN x", "-CLUSTERDOWN x"] {
        let once = fake(vec![refusal].leak());
        assert_eq!(count(&link(&once.url()), "k").await.unwrap(), 1, "{refusal}");
        let always = fake(vec![refusal; 100].leak());
        let result = count(&link(&always.url()), "k").await;
        assert_failed(result, StoreErrorKind::Overloaded, CallOutcome::NotRun);
        assert_eq!(calls(&always), 2, "{refusal}");
    }
}

#[tokio::test]
async fn a_server_that_was_never_a_primary_is_not_waited_for() {
    for refusal in ["-READONLY x", "-MASTERDOWN x"] {
        let fake = fake(vec![refusal; 100].leak());
        let result = count(&link(&fake.url()), "k").await;
        assert_failed(result, StoreErrorKind::ReadOnly, CallOutcome::NotRun);
        assert_eq!(calls(&fake), 1, "{refusal}");
    }
}

#[tokio::test]
async fn a_permanent_refusal_is_not_retried() {
    use StoreErrorKind::*;
    for (refusal, kind, outcome) in [
        ("-BUSY x", Overloaded, CallOutcome::NotRun),
        ("-OOM x", Full, CallOutcome::NotRun),
        ("-MISCONF x", Misconfigured, CallOutcome::NotRun),
        ("-NOREPLICAS x", ReadOnly, CallOutcome::NotRun),
        ("-NOAUTH x", Misconfigured, CallOutcome::NotRun),
        ("-NOPERM x", Misconfigured, CallOutcome::Unknown),
        ("-WRONGTYPE x", WrongType, CallOutcome::Unknown),
        ("-ERR x", Other, CallOutcome::Unknown),
        ("-UNHEARD of", Other, CallOutcome::Unknown),
        ("-", Other, CallOutcome::Unknown),
        (">2\r\n+message\r\n+x\r\n-ERR x", Other, CallOutcome::Unknown),
    ] {
        let fake = fake(vec![refusal].leak());
        let link = link(&fake.url());
        assert_failed(count(&link, "k").await, kind, outcome);
        assert_eq!(calls(&fake), 1, "{refusal}");
        assert_eq!(count(&link, "k").await.unwrap(), 1, "{refusal}");
    }
}

#[tokio::test]
async fn a_server_that_never_learns_a_script_is_asked_twice() {
    let fake = fake(&["-NOSCRIPT x", "-NOSCRIPT x", "-NOSCRIPT x"]);
    let result = count(&link(&fake.url()), "k").await;
    assert_failed(result, StoreErrorKind::Protocol, CallOutcome::NotRun);
    assert_eq!(calls(&fake), 2);
}

#[tokio::test]
async fn a_wrong_password_is_a_misconfiguration_and_no_loop() {
    let redis = Redis::builder().password("right").start();
    let proxy = Proxy::start(redis.address());
    for login in ["", ":wrong@", "nobody:right@"] {
        let link = link(&proxy.url().replace("://", &format!("://{login}")));
        let before = proxy.connections();
        for _ in 0..750 {
            let result = count(&link, "k").await;
            let failure = assert_failed(result, StoreErrorKind::Misconfigured, CallOutcome::NotRun);
            assert!(!failure.message.contains("wrong@"), "{failure}");
            sleep(Duration::from_millis(1)).await;
        }
        let dials = proxy.connections() - before;
        assert!(dials < 20, "{dials} dials");
    }
}

#[tokio::test]
async fn a_right_password_is_noticed() {
    let redis = Redis::start();
    let link = link(&redis.url().replace("://", "://:late@"));
    redis.command(&["CONFIG", "SET", "requirepass", "early"]).or_panic();
    assert_failed(count(&link, "k").await, StoreErrorKind::Misconfigured, CallOutcome::NotRun);
    let mut connection = redis.connect().unwrap();
    connection.call(&["AUTH", "early"]).unwrap().or_panic();
    connection.call(&["CONFIG", "SET", "requirepass", "late"]).unwrap().or_panic();
    assert_eq!(count_soon(&link, "k", Duration::from_secs(3)).await, 1);
}

#[tokio::test]
async fn a_database_that_is_not_there_is_a_misconfiguration() {
    let redis = Redis::start();
    let link = link(&format!("{}/99", redis.url()));
    assert_failed(count(&link, "k").await, StoreErrorKind::Misconfigured, CallOutcome::NotRun);
}

#[tokio::test]
async fn a_server_with_too_many_clients_is_overloaded() {
    let redis = Redis::start();
    let mut occupant = redis.connect().unwrap();
    occupant.call(&["CONFIG", "SET", "maxclients", "1"]).unwrap().or_panic();
    for _ in 0..20 {
        let link = link(&redis.url());
        assert_failed(count(&link, "k").await, StoreErrorKind::Overloaded, CallOutcome::NotRun);
    }
    let link = link(&redis.url());
    assert_failed(count(&link, "k").await, StoreErrorKind::Overloaded, CallOutcome::NotRun);
    occupant.call(&["CONFIG", "SET", "maxclients", "100"]).unwrap().or_panic();
    assert_eq!(count_soon(&link, "k", Duration::from_secs(2)).await, 1);
}

#[tokio::test]
async fn a_full_server_is_full_and_a_foreign_key_is_of_the_wrong_type() {
    let redis = Redis::start();
    let link = link(&redis.url());
    redis.command(&["RPUSH", "list", "x"]).or_panic();
    assert_failed(count(&link, "list").await, StoreErrorKind::WrongType, CallOutcome::Unknown);
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).or_panic();
    assert_failed(count(&link, "k").await, StoreErrorKind::Full, CallOutcome::NotRun);
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).or_panic();
    assert_eq!(count(&link, "k").await.unwrap(), 1);
}

#[tokio::test]
async fn a_user_without_rights_is_a_misconfiguration() {
    let redis = Redis::builder().user("poor on >pw ~* +@connection").start();
    let link = link(&redis.url().replace("://", "://poor:pw@"));
    assert_failed(count(&link, "k").await, StoreErrorKind::Misconfigured, CallOutcome::Unknown);
    assert_failed(
        link.memory(0, PATIENCE).await,
        StoreErrorKind::Misconfigured,
        CallOutcome::Unknown,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demoted_server_is_dialed_anew_and_not_in_a_loop() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.address());
    let link = link(&proxy.url());
    assert_eq!(count(&link, "k").await.unwrap(), 1);
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]).or_panic();
    let before = proxy.connections();
    for _ in 0..750 {
        assert_failed(count(&link, "k").await, StoreErrorKind::ReadOnly, CallOutcome::NotRun);
        sleep(Duration::from_millis(1)).await;
    }
    let dials = proxy.connections() - before;
    assert!((2..30).contains(&dials), "{dials} dials");
    redis.command(&["REPLICAOF", "NO", "ONE"]).or_panic();
    assert_eq!(count_soon(&link, "k", Duration::from_secs(2)).await, 2);
}

#[tokio::test]
async fn a_server_that_was_demoted_and_replaced_costs_no_call() {
    // Another server answers at the same name: the first call notices, and is sent again.
    let demoted = std::sync::Arc::new(AtomicUsize::new(0));
    let shared = std::sync::Arc::clone(&demoted);
    let fake = FakeRedis::start(move |command| match command[0].as_slice() {
        b"HELLO" if shared.load(Ordering::SeqCst) == 1 => {
            shared.store(0, Ordering::SeqCst);
            None
        }
        b"EVALSHA" if shared.load(Ordering::SeqCst) == 1 => Some(b"-READONLY x\r\n".to_vec()),
        b"EVALSHA" => Some(b":1\r\n".to_vec()),
        _ => None,
    });
    let link = link(&fake.url());
    assert_eq!(count(&link, "k").await.unwrap(), 1);
    sleep(Duration::from_millis(1_100)).await;
    demoted.store(1, Ordering::SeqCst);
    assert_eq!(count(&link, "k").await.unwrap(), 1);
}
