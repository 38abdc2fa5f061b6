//! A Redis user with only the permissions that the store needs.

use std::time::Duration;

use tidegate_core::{AlgorithmKind, Cost, Fingerprint, Span};
use tidegate_store::{SharedSettings, Store, StoreError, Verdicts};
use tidegate_store_redis::RedisStore;
use tidegate_testkit::{Redis, wait_until};

use crate::support::{ACL, Counter, as_limited_user, patient_store};

/// Every operation of a store, on every algorithm, with states of each form.
async fn all_operations(store: &RedisStore) -> Result<(), StoreError> {
    let counters: Vec<_> = AlgorithmKind::ALL
        .iter()
        .flat_map(|kind| ["2/400d", "2/1ms", "1000/400d"].map(|quota| (*kind, quota)))
        .map(|(kind, quota)| Counter::of(kind, quota, Fingerprint::new(1, 2)))
        .collect();
    for counter in &counters {
        for _ in 0..4 {
            counter.ask(store).await?;
        }
        store.settle(&[counter.charge_of(Cost::PEEK)], None, &mut Verdicts::new()).await?;
        store.refund(&counter.charge()).await?;
    }
    let charges: Vec<_> = counters.iter().map(Counter::charge).collect();
    store.settle(&charges, None, &mut Verdicts::new()).await?;
    for charge in &charges {
        store.reset(charge).await?;
    }
    store.put_setting("a", b"1", Span::from_secs(60)).await?;
    store.read_settings(None).await?;
    store.remove_setting("a").await?;
    Ok(())
}

#[tokio::test]
async fn the_documented_user_may_do_all_that_the_store_does() {
    let redis = Redis::builder().user(ACL).start();
    let store = patient_store(&as_limited_user(&redis.url()));
    all_operations(&store).await.unwrap();
    // Also after a restart, when no script is known, and when it has to be sent again.
    redis.command(&["SCRIPT", "FLUSH"]).or_panic();
    all_operations(&store).await.unwrap();
    assert_eq!(redis.command(&["ACL", "LOG"]).items(), []);
}

#[tokio::test]
async fn the_documented_user_may_do_nothing_else() {
    let commands: Vec<_> = ACL.split_whitespace().filter(|rule| rule.starts_with('+')).collect();
    assert!(commands.len() > 5);
    for command in commands {
        let others = ACL.split_whitespace().filter(|rule| *rule != command).collect::<Vec<_>>();
        let redis = Redis::builder().user(&others.join(" ")).start();
        let store = patient_store(&as_limited_user(&redis.url()));
        assert!(all_operations(&store).await.is_err(), "{command} is not needed");
        let log = || redis.command(&["ACL", "LOG"]).items().len();
        wait_until("the refusal in the log", Duration::from_secs(5), || log() > 0);
    }
    let redis = Redis::builder().user(ACL).start();
    let mut connection = redis.connect().unwrap();
    connection.call(&["AUTH", "tidegate", "secret"]).unwrap().or_panic();
    for command in [&["GET", "other"][..], &["SET", "other", "1"], &["FLUSHALL"], &["KEYS", "*"]] {
        assert!(connection.call(command).unwrap().text().starts_with("NOPERM"), "{command:?}");
    }
}
