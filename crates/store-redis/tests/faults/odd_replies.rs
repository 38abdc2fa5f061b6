//! Answers that a real Redis gives too rarely, and some that it never gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::AlgorithmKind;
use tidegate_store::{StoreError, StoreErrorKind};
use tidegate_testkit::{FakeRedis, Reply};

use crate::support::{Counter, assert_kind, patient_store, store_within};

/// What the script answers for a counter never seen: no state, the time, and the call's mark.
fn fresh(command: &[Vec<u8>]) -> Vec<u8> {
    marked(vec![Reply::Bulk(None), Reply::Integer(1_700_000_000_000_000)], command)
}

/// An answer with the mark of its call, which is the last argument.
fn marked(mut items: Vec<Reply>, command: &[Vec<u8>]) -> Vec<u8> {
    let mark = command.last().and_then(|mark| String::from_utf8_lossy(mark).parse().ok());
    items.push(Reply::Integer(mark.expect("a mark")));
    Reply::Array(Some(items)).to_bytes()
}

const BACK: Duration = Duration::from_secs(20);

/// A server that answers scripts with these replies, one after the other, and correctly after that.
fn fake(answers: Vec<Vec<u8>>) -> FakeRedis {
    let next = AtomicUsize::new(0);
    FakeRedis::start(move |command| {
        let answer = |at| answers.get(at).cloned().unwrap_or_else(|| fresh(command));
        command[0].starts_with(b"EVAL").then(|| answer(next.fetch_add(1, Ordering::SeqCst)))
    })
}

#[tokio::test]
async fn refusals_have_their_kind_and_the_next_answer_is_good() {
    use StoreErrorKind::{Full, Misconfigured, Other, Overloaded, Protocol, ReadOnly, WrongType};
    for (refusal, times, kind) in [
        // Calls are sent twice if the error may be temporary.
        ("LOADING Redis is loading the dataset in memory", 2, Overloaded),
        ("CLUSTERDOWN The cluster is down", 2, Overloaded),
        ("TRYAGAIN Multiple keys request during rehashing of slot", 2, Overloaded),
        ("BUSY Redis is busy running a script.", 1, Overloaded),
        ("NOREPLICAS Not enough good replicas to write.", 1, ReadOnly),
        ("MISCONF Redis is configured to save RDB snapshots", 1, Misconfigured),
        ("OOM command not allowed when used memory > 'maxmemory'.", 1, Full),
        ("NOPERM this user has no permissions", 1, Misconfigured),
        ("NOAUTH Authentication required.", 1, Misconfigured),
        ("WRONGTYPE Operation against a key", 1, WrongType),
        ("NOSCRIPT No matching script.", 2, Protocol),
        ("ERR user_script:1: boom", 1, Other),
        ("UNHEARD of", 1, Other),
        ("x", 1, Other),
        ("", 1, Other),
    ] {
        let fake = fake(vec![format!("-{refusal}\r\n").into_bytes(); times]);
        let store = patient_store(&fake.url());
        let counter = Counter::ample(1);
        let error = counter.ask(&store).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{refusal}: {error}");
        assert!(counter.ask(&store).await.unwrap(), "{refusal}");
    }
}

#[tokio::test]
async fn answers_of_another_shape_are_not_understood_and_the_next_connection_is_good() {
    for answer in [
        "*0\r\n",
        "*-1\r\n",
        "*1\r\n$-1\r\n",
        "*2\r\n$-1\r\n:-1\r\n",
        "*2\r\n$-1\r\n$-1\r\n",
        "*2\r\n:7\r\n*0\r\n",
        "*3\r\n$-1\r\n:1700000000000000\r\n:-1\r\n",
        "$-1\r\n",
        "+OK\r\n",
        ":1\r\n",
    ] {
        let fake = fake(vec![answer.into()]);
        let store = patient_store(&fake.url());
        let told = Counter::ample(1).ask(&store).await;
        let kind = told.as_ref().err().map(StoreError::kind);
        assert_eq!(kind, Some(StoreErrorKind::Protocol), "{answer:?}: {told:?}");
        Counter::ample(1).ask_until_answered(&store, BACK).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_an_error_and_the_connection_after_it_is_good() {
    let garbage =
        ["\0\0\0\0\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "$x\r\n", "*x\r\n", ":x\r\n"];
    for answer in garbage {
        let fake = fake(vec![answer.into()]);
        let store = store_within(&fake.url(), Duration::from_millis(500));
        assert_kind(Counter::ample(1).ask(&store).await, StoreErrorKind::Protocol);
        Counter::ample(1).ask_until_answered(&store, BACK).await;
    }
}

/// Replies that end too early.
const TORN: [&str; 5] = ["*", "*2\r\n", "*2\r\n$-1\r\n:17", "$9\r\nabc", "-OO"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_never_ends_is_a_timeout_and_the_connection_is_replaced() {
    for answer in TORN {
        let fake = fake(vec![answer.into()]);
        let store = store_within(&fake.url(), Duration::from_millis(50));
        assert_kind(Counter::ample(1).ask(&store).await, StoreErrorKind::Timeout);
        Counter::ample(1).ask_until_answered(&store, BACK).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_ends_with_the_connection_is_an_error_and_the_next_one_is_good() {
    for answer in TORN {
        let fake = Arc::new(fake(vec![answer.into()]));
        let store = patient_store(&fake.url());
        let server = Arc::clone(&fake);
        let hang_up = tokio::task::spawn_blocking(move || {
            let is_call = |command: &Vec<Vec<u8>>| command[0].starts_with(b"EVAL");
            let called = || server.seen().iter().any(is_call);
            tidegate_testkit::wait_until("a call", BACK, called);
            server.disconnect();
        });
        let error = Counter::ample(1).ask(&store).await.unwrap_err();
        let kinds = [StoreErrorKind::Lost, StoreErrorKind::Protocol];
        assert!(kinds.contains(&error.kind()) && error.may_have_settled(), "{error}");
        hang_up.await.unwrap();
        Counter::ample(1).ask_until_answered(&store, BACK).await;
    }
}

/// The connection hangs, but Redis does not: a new one is made, and no caller waits for the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_hangs_alone_is_replaced() {
    let fake = FakeRedis::start_with_a_silent_connection(|command| Some(fresh(command)));
    let store = store_within(&fake.url(), Duration::from_millis(20));
    let counter = Counter::ample(1);
    assert_kind(counter.ask(&store).await, StoreErrorKind::Timeout);
    counter.ask_until_answered(&store, BACK).await;
}

/// Whatever a server replies, callers get an answer or an error, never a panic, and it is used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_however_odd_stops_the_store() {
    let answer = Arc::new(Mutex::new(None));
    let shared = Arc::clone(&answer);
    let fake = FakeRedis::start(move |command| {
        let answer = || match shared.lock().clone() {
            Some(items) => marked(items, command),
            None => fresh(command),
        };
        command[0].starts_with(b"EVAL").then(answer)
    });
    let store = store_within(&fake.url(), Duration::from_millis(500));
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..400 {
        let kind = AlgorithmKind::ALL[round % AlgorithmKind::ALL.len()];
        let counter = Counter::new(kind, "10/minute", 1);
        let reply = odd_reply(&mut random);
        *answer.lock() = Some(reply.clone());
        let told = counter.ask(&store).await;
        assert!(is_an_answer(&told), "{kind} was told {reply:?}, and we {told:?}");
        *answer.lock() = None;
        // As many as open the breaker, so that it is not the breaker that answers.
        Counter::ample(1).ask_until_answered(&store, BACK).await;
    }
}

/// A panic along the way shows up as an abandoned request.
fn is_an_answer(told: &Result<bool, StoreError>) -> bool {
    use StoreErrorKind::{Protocol, WrongType};
    told.as_ref().map_or_else(|error| matches!(error.kind(), Protocol | WrongType), |_| true)
}

/// The right shape, with numbers and bytes that no script of ours would answer.
fn odd_reply(random: &mut fastrand::Rng) -> Vec<Reply> {
    let number = |random: &mut fastrand::Rng| match random.u8(..4) {
        0 => random.i64(..),
        1 => random.i64(0..10),
        2 => [i64::MAX, i64::MIN, 0, 1 << 53, (1 << 53) - 1][random.usize(..5)],
        _ => 1_700_000_000_000_000 + random.i64(-100_000_000..100_000_000),
    };
    let state = match random.u8(..4) {
        0 => Reply::Bulk(None),
        1 => Reply::Integer(random.i64(0..4)),
        _ => {
            let length = [0, 1, 7, 11, 15, 15, 21, 32][random.usize(..8)];
            Reply::bulk((0..length).map(|_| random.u8(..)).collect::<Vec<_>>())
        }
    };
    let mut items = vec![state];
    items.extend((0..random.usize(1..6)).map(|_| Reply::Integer(number(random))));
    items
}
