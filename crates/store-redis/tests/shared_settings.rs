//! The shared settings, on every kind of Redis.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::time::Duration;

use tidegate_core::Span;
use tidegate_store::{SettingEntry, SharedSettings, StoreErrorKind};
use tidegate_store_redis::{RedisConfig, RedisStore};
use tidegate_testkit::{Cluster, Redis, Replicated};

const HOUR: Span = Span::from_secs(3_600);

fn store(url: &str, secret: &str) -> RedisStore {
    let config: RedisConfig = url.parse().unwrap();
    RedisStore::builder(config.connect_timeout(Duration::from_secs(5))).secret(secret).build()
}

async fn names(store: &RedisStore) -> Vec<String> {
    let notices = store.read_settings(None).await.unwrap().unwrap();
    notices.list.into_iter().map(|notice| notice.name).collect()
}

async fn is_shared(url: &str) {
    let [one, two, stranger] = ["s", "s", "other"].map(|secret| store(url, secret));
    assert_eq!(one.read_settings(None).await.unwrap().unwrap().version, 0);
    one.put_setting("b", b"\xff\x00", HOUR).await.unwrap();
    two.put_setting("a", b"", HOUR).await.unwrap();
    let seen = one.read_settings(Some(0)).await.unwrap().unwrap();
    let list: Vec<_> = seen.list.iter().map(|it| (&*it.name, &*it.text)).collect();
    assert_eq!(list, [("a", &b""[..]), ("b", b"\xff\x00")]);
    assert!(seen.list.iter().all(|it| it.left <= HOUR && it.left > Span::from_secs(3_500)));
    assert_eq!(two.read_settings(Some(seen.version)).await.unwrap(), None);
    assert_eq!(names(&stranger).await, [""; 0], "another secret is another deployment");
    assert!(two.remove_setting("b").await.unwrap());
    assert!(!two.remove_setting("b").await.unwrap());
    assert_eq!(names(&one).await, ["a"]);
    assert!(one.remove_setting("a").await.unwrap());
    assert_eq!(two.read_settings(Some(seen.version)).await.unwrap().unwrap().version, 0);
}

#[tokio::test]
async fn all_instances_see_the_same_settings() {
    is_shared(&Redis::start().url()).await;
}

#[tokio::test]
async fn all_instances_see_the_same_settings_behind_sentinels() {
    is_shared(&Replicated::start().sentinel_url()).await;
}

#[tokio::test]
async fn all_instances_see_the_same_settings_on_a_cluster() {
    is_shared(&Cluster::start(3).url()).await;
}

#[tokio::test]
async fn entries_expire_and_leave_nothing_behind() {
    let redis = Redis::start();
    let store = store(&redis.url(), "s");
    store.put_setting("short", b"", Span::from_millis(30)).await.unwrap();
    tidegate_testkit::wait_until("the end of the key", Duration::from_secs(5), || {
        redis.command(&["DBSIZE"]) == tidegate_testkit::Reply::Integer(0)
    });
    store.put_setting("short", b"", Span::from_millis(30)).await.unwrap();
    store.put_setting("long", b"", Span::from_days(4_000)).await.unwrap();
    let left = store.read_settings(None).await.unwrap().unwrap().list[0].left;
    assert!(left <= SettingEntry::LONGEST, "{left}");
    while names(&store).await != ["long"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn many_writers_lose_nothing() {
    let redis = Redis::start();
    let writers = (0..8).map(|writer| {
        let store = store(&redis.url(), "s");
        tokio::spawn(async move {
            for number in 0..5 {
                let name = format!("{writer}-{number}");
                // A writer that was overtaken too often gets an error, and may try again.
                while let Err(error) = store.put_setting(&name, b"x", HOUR).await {
                    assert_eq!(error.kind(), StoreErrorKind::Overloaded, "{error}");
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(names(&store(&redis.url(), "s")).await.len(), 40);
}

#[tokio::test]
async fn what_is_not_ours_is_an_error() {
    let redis = Redis::start();
    let store = store(&redis.url(), "s");
    store.put_setting("a", b"", HOUR).await.unwrap();
    let keys = redis.command(&["KEYS", "*"]);
    let tidegate_testkit::Reply::Bulk(Some(name)) = &keys.items()[0] else { panic!("{keys:?}") };
    redis.command(&[&b"SET"[..], name, b"12345678garbage"]);
    assert_eq!(store.read_settings(None).await.unwrap_err().kind(), StoreErrorKind::WrongType);
}

#[tokio::test]
async fn all_instances_are_on_one_list_whatever_their_secrets() {
    let redis = Redis::start();
    let [one, two] = ["s", "other"].map(|secret| store(&redis.url(), secret));
    let names = |list: Vec<SettingEntry>| list.into_iter().map(|it| it.name).collect::<Vec<_>>();
    assert_eq!(names(one.register_instance("b", b"1", HOUR).await.unwrap()), ["b"]);
    let list = two.register_instance("a", b"2", HOUR).await.unwrap();
    let said: Vec<_> = list.iter().map(|it| (&*it.name, &*it.text)).collect();
    assert_eq!(said, [("a", &b"2"[..]), ("b", b"1")]);
    // An instance that does not register again is gone.
    let short = Span::from_millis(1);
    assert_eq!(names(one.register_instance("b", b"1", short).await.unwrap()), ["a", "b"]);
    while names(two.register_instance("a", b"2", HOUR).await.unwrap()) != ["a"] {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The list of instances is not part of the settings.
    assert_eq!(one.read_settings(None).await.unwrap().unwrap().list, []);
}
