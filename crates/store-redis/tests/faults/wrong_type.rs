//! A foreign value under a counter's key: callers get an error, and the value is left alone.

use tidegate_core::{AlgorithmKind, Cost, Fingerprint};
use tidegate_store::{Store, StoreErrorKind, Verdicts};
use tidegate_testkit::{Redis, Reply};

use crate::support::{Counter, assert_kind, patient_store};

#[tokio::test]
async fn a_list_under_our_key_is_of_the_wrong_type_and_still_there_afterwards() {
    let redis = Redis::start();
    let store = patient_store(&redis.url());
    for (n, kind) in (0..).zip(AlgorithmKind::ALL) {
        let counter = Counter::new(*kind, "10/hour", n);
        let key = store.key_name(&counter.charge());
        redis.command(&[&b"RPUSH"[..], &key, b"a", b"b"]).or_panic();
        for _ in 0..10 {
            assert_kind(counter.ask(&store).await, StoreErrorKind::WrongType);
        }
        let list = redis.command(&[&b"LRANGE"[..], &key, b"0", b"-1"]).or_panic();
        assert_eq!(list.items(), [Reply::bulk("a"), Reply::bulk("b")], "{kind}");
        // The error concerns one key, and not Redis as a whole.
        assert!(store.is_available() && Counter::ample(99).ask(&store).await.is_ok());
    }
}

#[tokio::test]
async fn a_text_under_our_key_is_of_the_wrong_type_and_still_there_afterwards() {
    let redis = Redis::start();
    let store = patient_store(&redis.url());
    for (n, kind) in (0..).zip(AlgorithmKind::ALL) {
        for text in TEXTS {
            let counter = Counter::new(*kind, "10/hour", n);
            let key = store.key_name(&counter.charge());
            redis.command(&[&b"SET"[..], &key, text.as_bytes()]).or_panic();
            assert_kind(counter.ask(&store).await, StoreErrorKind::WrongType);
            assert_eq!(redis.command(&[&b"GET"[..], &key]), Reply::bulk(text), "{kind}");
        }
    }
}

/// Also as long as the integers of buckets.
const TEXTS: [&str; 9] = [
    "",
    "x",
    "-5",
    "not a number",
    "0x12345678901234",
    "1234567890123 456",
    "user:abcdefg:0010",
    "-1234567890120010",
    "17 and more text than any state of ours has",
];

/// Numbers that other programs might write: either they are consistently read as a count, or callers get
/// an error and the number is left alone.
#[tokio::test]
async fn a_foreign_number_is_counted_consistently_or_refused() {
    let redis = Redis::start();
    let store = patient_store(&redis.url());
    for (n, kind) in (0..).zip([AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindow]) {
        for text in ["1", "2", "3", "01234567890", "000000000000001", "99999999999999999999"] {
            let counter = Counter::new(kind, "10/hour", n);
            let key = store.key_name(&counter.charge());
            redis.command(&[&b"SET"[..], &key, text.as_bytes()]).or_panic();
            match counter.ask(&store).await {
                Ok(passes) => {
                    let used = if passes { 1 } else { 10 };
                    assert_eq!(counter.used(&store).await, used, "{kind} {text}");
                }
                answer => {
                    assert_kind(answer, StoreErrorKind::WrongType);
                    assert_eq!(redis.command(&[&b"GET"[..], &key]), Reply::bulk(text), "{kind}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_reset_removes_whatever_is_there_and_the_counter_works_again() {
    let redis = Redis::start();
    let store = patient_store(&redis.url());
    let counter = Counter::long(10, 1);
    let key = store.key_name(&counter.charge());
    redis.command(&[&b"RPUSH"[..], &key, b"a"]).or_panic();
    assert_kind(counter.ask(&store).await, StoreErrorKind::WrongType);
    store.reset(&counter.charge()).await.unwrap();
    assert!(counter.ask(&store).await.unwrap());
}

/// Either no counter was charged, or the error says that some may have been.
#[tokio::test]
async fn a_foreign_list_under_one_of_several_keys_charges_none_silently() {
    let redis = Redis::start();
    let store = patient_store(&redis.url());
    let of = |kind| Counter::of(kind, "10/400d", Fingerprint::new(1, 2));
    for (good, bad) in [
        (of(AlgorithmKind::FixedWindow), of(AlgorithmKind::SlidingLog)),
        (of(AlgorithmKind::SlidingLog), of(AlgorithmKind::SlidingWindow)),
        (of(AlgorithmKind::SteppedWindow), of(AlgorithmKind::SlidingWindow)),
        (of(AlgorithmKind::FixedWindow), of(AlgorithmKind::SteppedWindow)),
    ] {
        for charges in [[good.charge(), bad.charge()], [bad.charge(), good.charge()]] {
            redis.command(&["FLUSHALL"]).or_panic();
            redis.command(&[&b"RPUSH"[..], &store.key_name(&bad.charge()), b"a"]).or_panic();
            let answer = store.settle(&charges, None, &mut Verdicts::new()).await;
            let error = assert_kind(answer, StoreErrorKind::WrongType);
            let used = good.used(&store).await;
            assert!(used == 0 || error.may_have_settled(), "{used} paid to {}", good.limit());
        }
    }
}

#[tokio::test]
async fn a_peek_at_a_list_leaves_it_alone() {
    let redis = Redis::start();
    let store = patient_store(&redis.url());
    let counter = Counter::long(10, 1);
    let key = store.key_name(&counter.charge());
    redis.command(&[&b"RPUSH"[..], &key, b"a"]).or_panic();
    // Whether it is noticed does not matter: nothing is taken.
    let _ = store.settle(&[counter.charge_of(Cost::PEEK)], None, &mut Verdicts::new()).await;
    assert_eq!(redis.command(&[&b"TYPE"[..], &key]).text(), "list");
}
