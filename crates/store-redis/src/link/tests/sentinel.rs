//! A primary that changes.

use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tidegate_testkit::Replicated;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_primary_is_found_and_found_again() {
    let group = Replicated::builder().password("pw").start();
    let link = link(&group.sentinel_url());
    assert_eq!(count(&link, "k").await.unwrap(), 1);
    assert_eq!(group.primary().command(&["GET", "k"]).text(), "1");
    group.failover();
    assert_ne!(group.current_primary_port(), group.primary().port());
    count_soon(&link, "after", Duration::from_secs(3)).await;
    assert_eq!(group.current_primary().command(&["GET", "after"]).text(), "1");
    // And when it is gone without a word.
    let lost = group.current_primary_port();
    group.current_primary().kill();
    sleep(Duration::from_millis(200)).await;
    count_soon(&link, "later", PATIENCE).await;
    assert_ne!(group.current_primary_port(), lost);
}

#[tokio::test]
async fn one_sentinel_that_answers_is_enough() {
    let group = Replicated::start();
    let alive = group.sentinels()[2].address();
    let first = link(&format!("redis+sentinel://127.0.0.1:1,{alive}/mymaster"));
    assert_eq!(count(&first, "k").await.unwrap(), 1);
    // The others were learned from it.
    group.sentinels()[2].kill();
    let mut connection = group.primary().connect().unwrap();
    connection.call(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap().or_panic();
    sleep(Duration::from_millis(100)).await;
    assert_eq!(count_soon(&first, "k", Duration::from_secs(3)).await, 2);
}

#[tokio::test]
async fn a_service_that_nobody_knows_is_a_misconfiguration() {
    let group = Replicated::start();
    let unknown = link(&group.sentinel_url().replace("mymaster", "other"));
    let result = count(&unknown, "k").await;
    let failure = assert_failed(result, StoreErrorKind::Misconfigured, Outcome::NotRun);
    assert!(failure.message.contains("\"other\""), "{failure}");
    let nowhere = link("redis+sentinel://127.0.0.1:1/mymaster");
    assert_failed(count(&nowhere, "k").await, StoreErrorKind::Unreachable, Outcome::NotRun);
}
