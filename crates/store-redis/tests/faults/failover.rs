//! Sentinels promote a replica while callers send requests.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::StoreErrorKind;
use tidegate_store_redis::RedisStore;
use tidegate_testkit::{Replicated, wait_until};

use crate::support::load::{Load, Tally};
use crate::support::{Counter, patient_store, store_within};

/// Sentinels take 0.7 s to miss a primary and a few seconds to agree; a busy machine gets more.
const BACK: Duration = Duration::from_secs(30);
const LIMIT: u64 = 6_000;

/// A counter that shows whether the service is up without affecting the tally.
fn bystander() -> Counter {
    Counter::ample(2)
}

async fn loaded(group: &Replicated) -> (Arc<RedisStore>, Counter, Load) {
    let store = Arc::new(store_within(&group.sentinel_url(), Duration::from_millis(250)));
    let counter = Counter::long(LIMIT, 1);
    bystander().ask_until_answered(&store, BACK).await;
    let load = Load::start(&store, &[counter], 16, Duration::from_millis(8));
    load.go_on_for(1_000).await;
    (store, counter, load)
}

/// Continues until the limit is reached, and compares: a write that had not reached the replica is
/// forgotten, so at most that much is admitted a second time, and never more than twice the limit.
async fn assert_bounded(group: &Replicated, counter: &Counter, load: Load) -> Tally {
    let store = patient_store(&group.sentinel_url());
    while counter.remaining(&store).await > 0 {
        load.go_on_for(100).await;
    }
    let tally = load.end_one().await;
    assert!(tally.admitted <= 2 * LIMIT, "{tally:?}");
    assert!(tally.admitted + tally.unknown >= LIMIT, "{tally:?}");
    use StoreErrorKind::{Lost, Overloaded, ReadOnly, Timeout, Unreachable};
    tally.assert_errors_are(&[Lost, Overloaded, ReadOnly, Timeout, Unreachable]);
    tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_is_replaced_and_callers_are_served_again_by_themselves() {
    let group = Replicated::start();
    let (store, counter, load) = loaded(&group).await;
    group.current_primary().kill();
    bystander().ask_until(&store, StoreErrorKind::Unreachable).await;
    bystander().ask_until_answered(&store, BACK).await;
    // A new store would trust the first Sentinel that answers.
    wait_until("all to agree", BACK, || group.are_agreed_on(group.replica()));
    let tally = assert_bounded(&group, &counter, load).await;
    assert!(!tally.errors.is_empty(), "nobody noticed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_on_demand_is_followed() {
    let group = Replicated::start();
    let (store, counter, load) = loaded(&group).await;
    tokio::task::block_in_place(|| group.failover());
    bystander().ask_until_answered(&store, BACK).await;
    assert_bounded(&group, &counter, load).await;
    let other = Counter::long(10, 9);
    other.ask_until_answered(&store, BACK).await;
    let key = store.key_name(&other.charge());
    let there = || group.current_primary().command(&[&b"EXISTS"[..], &key]).integer() == 1;
    wait_until("the key on the new primary", BACK, there);
}
