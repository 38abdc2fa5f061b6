//! One server, behind a wire that can be cut.

use std::time::Duration;

use tidegate_testkit::{Mode, Proxy, Redis};

use crate::faults::{Fault, First, LOGIN, USER};
use crate::measurement::Cell;

#[derive(Clone, Copy, Debug)]
enum Second {
    /// The connections there are hang. New ones would work.
    Hung,
    /// Another server is at the address, and the old one no longer answers.
    Moved,
    /// The server is replaced by a new one without notice to its clients, a moment later.
    Replaced,
    /// Replies are lost, now and then one, as by a broken middlebox.
    Lossy,
}

async fn column(second: Second) {
    for first in First::ALL {
        cell(first, second).await;
    }
}

async fn cell(first: First, second: Second) {
    let server = Redis::builder().user(USER).start();
    let spare = Redis::builder().user(USER).start();
    let proxy = Proxy::start(server.address());
    let name = format!("one, {first:?} then {second:?}");
    let cell = Cell::start(name, &proxy.url().replace("://", LOGIN)).await;
    let fault = Fault::begin(first, &server);
    cell.until_given_up().await;
    let mut spent = Some(fault);
    match second {
        Second::Hung => proxy.freeze(),
        Second::Moved => {
            proxy.freeze();
            proxy.redirect(spare.address());
        }
        Second::Replaced => {
            proxy.set_mode(Mode::Blackhole);
            drop(spent.take());
            server.start_again();
            proxy.freeze();
            proxy.set_mode(Mode::Forward);
        }
        Second::Lossy => {
            for mode in [Mode::DropReplies, Mode::Forward].into_iter().cycle().take(16) {
                proxy.set_mode(mode);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    if let Some(fault) = spent {
        fault.lift(&server);
    }
    cell.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_connections_hang_is_found_again() {
    column(Second::Hung).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_address_moves_is_found() {
    column(Second::Moved).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_server_is_found() {
    column(Second::Replaced).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_replies_are_lost_recovers() {
    column(Second::Lossy).await;
}
