//! A primary and a replica, watched by Sentinels.

use std::time::Duration;

use tidegate_testkit::{Redis, Replicated, wait_until};
use tokio::task::JoinSet;

use crate::faults::{Fault, First, LOGIN, USER};
use crate::measurement::Cell;

#[derive(Clone, Copy, Debug)]
enum Second {
    /// The connections there are hang, those of the Sentinels too. New ones would work.
    Hung,
    /// The primary stops answering, and its connections stay open.
    Stopped,
    /// The Sentinels are ordered to promote the replica while all servers are well.
    Promoted,
    /// The primary is killed.
    Replaced,
}

/// Two at a time: each has five servers, and most of the time goes by waiting.
async fn column(second: Second) {
    for pair in First::ALL.chunks(2) {
        let cells: JoinSet<()> = pair.iter().map(|first| cell(*first, second)).collect();
        cells.join_all().await;
    }
}

async fn cell(first: First, second: Second) {
    let start = || Replicated::builder().wired().arg("user", USER).start();
    let group = tokio::task::spawn_blocking(start).await.expect("a group");
    let name = format!("Sentinel, {first:?} then {second:?}");
    let cell = Cell::start(name, &group.sentinel_url().replace("://", LOGIN)).await;
    let fault = Fault::begin(first, group.primary());
    // One that hangs is soon replaced, which is the second fault already.
    match first {
        First::Hung => tokio::time::sleep(Duration::from_millis(400)).await,
        _ => cell.until_given_up().await,
    }
    tokio::task::block_in_place(|| {
        match second {
            Second::Hung => {
                group.wire(0).freeze();
                return fault.lift(group.primary());
            }
            Second::Stopped => group.primary().pause(),
            Second::Replaced => group.primary().kill(),
            Second::Promoted => {
                fault.lift(group.primary());
                group.request_failover();
            }
        }
        let promoted = group.replica();
        wait_until("a new primary", Duration::from_secs(30), || is_in_charge(&group, promoted));
    });
    // What a former primary counts is lost, so no connection may be left there.
    cell.end_with(|| connections(group.current_primary()) >= 4).await;
}

/// Whether all Sentinels send clients to this server, and it accepts writes.
fn is_in_charge(group: &Replicated, server: &Redis) -> bool {
    group.are_agreed_on(server)
        && server.try_command(&["SET", "ours", "1"]).is_ok_and(|reply| reply.is_ok())
}

/// How many connections the stores have to it.
fn connections(server: &Redis) -> usize {
    // Sentinels close all connections to a server whose role they change.
    let Ok(clients) = server.try_command(&["CLIENT", "LIST"]) else { return 0 };
    clients.text().lines().filter(|client| client.contains(" name=tidegate ")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_the_primary_hang() {
    column(Second::Hung).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_primary_stops() {
    column(Second::Stopped).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_promoted() {
    column(Second::Promoted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_primary_is_killed() {
    column(Second::Replaced).await;
}
