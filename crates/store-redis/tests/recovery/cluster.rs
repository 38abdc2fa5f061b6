//! A Cluster of three primaries, each with a replica, of which one primary fails.

use std::time::Duration;

use tidegate_testkit::{Cluster, Redis, wait_until};
use tokio::task::JoinSet;

use crate::faults::{Fault, First, LOGIN, USER};
use crate::measurement::Cell;

#[derive(Clone, Copy, Debug)]
enum Second {
    /// The connections there are hang. New ones would work.
    Hung,
    /// The primary stops answering, and its connections stay open.
    Stopped,
    /// The replica is ordered to take over while all nodes are well.
    Promoted,
    /// The primary is killed.
    Replaced,
}

async fn column(second: Second) {
    for pair in First::ALL.chunks(2) {
        let cells: JoinSet<()> = pair.iter().map(|first| cell(*first, second)).collect();
        cells.join_all().await;
    }
}

async fn cell(first: First, second: Second) {
    let start = || Cluster::builder(3).replicas(1).wired().arg("user", USER).start();
    let cluster = tokio::task::spawn_blocking(start).await.expect("a Cluster");
    let (primary, replica) = (&cluster.nodes()[0], &cluster.nodes()[3]);
    let name = format!("Cluster, {first:?} then {second:?}");
    let cell = Cell::start(name, &cluster.url().replace("://", LOGIN)).await;
    let fault = Fault::begin(first, primary);
    // One that hangs is soon replaced, which is the second fault already.
    match first {
        First::Hung => tokio::time::sleep(Duration::from_millis(400)).await,
        _ => cell.until_given_up().await,
    }
    tokio::task::block_in_place(|| {
        match second {
            Second::Hung => {
                cluster.wire(0).freeze();
                return fault.lift(primary);
            }
            Second::Stopped => primary.pause(),
            Second::Replaced => primary.kill(),
            Second::Promoted => {
                fault.lift(primary);
                replica.command(&["CLUSTER", "FAILOVER"]).or_panic();
            }
        }
        wait_until("a new primary", Duration::from_secs(30), || is_in_charge(&cluster, 3));
    });
    cell.end().await;
}

/// Whether the node with this index serves the first slot, according to the others that are up, and
/// accepts writes.
fn is_in_charge(cluster: &Cluster, index: usize) -> bool {
    let node = &cluster.nodes()[index];
    let says_ok = |node: &Redis| {
        let info = node.try_command(&["CLUSTER", "INFO"]);
        info.is_ok_and(|info| info.text().contains("cluster_state:ok"))
    };
    let others = [&cluster.nodes()[1], &cluster.nodes()[2], node];
    others
        .iter()
        .all(|one| says_ok(one) && cluster.serves(one, 0) == Some(cluster.wire(index).port()))
        && node.role().is_some_and(|role| role == "master")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_primary_hang() {
    column(Second::Hung).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_stops() {
    column(Second::Stopped).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_takes_over() {
    column(Second::Promoted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_is_killed() {
    column(Second::Replaced).await;
}
