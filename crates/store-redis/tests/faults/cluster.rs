//! A Cluster of which a part is down, and requests whose keys are in several slots.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::{Store, StoreErrorKind, Verdicts};
use tidegate_testkit::{Cluster, slot_of};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::{Counter, patient_store, store_within};

const BACK: Duration = Duration::from_secs(20);

/// Different subjects have different slots: they are charged one after the other, and refunded if a
/// later one denies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_different_subjects_are_all_paid_or_none_in_the_end() {
    let cluster = Cluster::start(3);
    let store = Arc::new(patient_store(&cluster.url()));
    let counters = [Counter::long(1_000, 1), Counter::long(50, 2), Counter::long(2_000, 3)];
    let slots = counters.map(|counter| slot_of(&store.key_name(&counter.charge())));
    assert!(slots[0] != slots[1] && slots[1] != slots[2], "{slots:?}");
    let mut callers = JoinSet::new();
    for n in 0..200 {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let mut charges = counters.each_ref().map(Counter::charge);
            charges.rotate_left(n % 3);
            let mut verdicts = Verdicts::new();
            let passes = store.settle(&charges, None, &mut verdicts).await.unwrap();
            assert_eq!(verdicts.len(), 3);
            assert_eq!(passes, verdicts.iter().all(|verdict| verdict.allowed));
            passes
        });
    }
    let admitted = callers.join_all().await.into_iter().filter(|passes| *passes).count() as u64;
    assert_eq!(admitted, 50);
    for counter in &counters {
        assert_eq!(counter.used(&store).await, admitted);
    }
}

/// One node of three is gone. Callers whose counters are elsewhere must not be affected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_of_a_cluster_is_an_outage_for_its_own_keys_only() {
    let cluster = Cluster::builder(3).arg("cluster-require-full-coverage", "no").start();
    let store = store_within(&cluster.url(), Duration::from_millis(250));
    let owner =
        |counter: &Counter| cluster.node_of_slot(slot_of(&store.key_name(&counter.charge())));
    let counters: Vec<_> = (0..30).map(Counter::ample).collect();
    let (lost, others): (Vec<&Counter>, Vec<_>) = counters.iter().partition(|one| owner(one) == 0);
    for counter in &counters {
        counter.ask_until_answered(&store, BACK).await;
    }
    cluster.nodes()[0].kill();
    lost[0].ask_until(&store, StoreErrorKind::Unreachable).await;
    let mut served = 0;
    for round in 0..200 {
        assert!(lost[round % lost.len()].ask(&store).await.is_err());
        served += u32::from(others[round % others.len()].ask(&store).await.is_ok());
        sleep(Duration::from_millis(5)).await;
    }
    assert!(served > 180, "{served} of 200 were served by the nodes that are left");
}
