//! Who flies with whom.

mod counters;
mod crowds;
mod delays;
mod distance;
mod flights;

use std::ops::Range;

use tidegate_core::{Charge, Cost, Fingerprint, Limit, Rule};
use tidegate_store::Verdicts;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

use super::traffic::{FAR, MOMENT};
use super::*;
use crate::batch::Item;

const DEADLINE: Duration = Duration::from_millis(10);
const DEPTH: usize = 32;

/// Keeps calls in the air until they may land, and notes where each went and how full it was.
#[derive(Clone)]
struct Tower {
    departures: Arc<Mutex<Vec<(usize, usize)>>>,
    landing: Arc<Semaphore>,
    /// Or lets them land after this time.
    distance: Option<Duration>,
}

impl Default for Tower {
    fn default() -> Self {
        Self { departures: Arc::default(), landing: Arc::new(Semaphore::new(0)), distance: None }
    }
}

impl Carrier for Tower {
    fn keeps_slots_apart(&self) -> bool {
        false
    }

    async fn carry(&self, lane: usize, parcel: &Parcel) -> Vec<Answer> {
        self.departures.lock().push((lane, parcel.requests()));
        match self.distance {
            Some(time) => tokio::time::sleep(time).await,
            None => self.landing.acquire().await.unwrap().forget(),
        }
        (0..parcel.requests()).map(|_| Ok((true, Verdicts::new()))).collect()
    }
}

impl Tower {
    /// Lets one call land.
    async fn land(&self) {
        self.landing.add_permits(1);
        settle().await;
    }

    fn departures(&self) -> Vec<(usize, usize)> {
        std::mem::take(&mut self.departures.lock())
    }
}

/// All that can happen has happened: on a runtime of one thread, tasks take turns.
async fn settle() {
    for _ in 0..1_000 {
        yield_now().await;
    }
}

fn rule() -> Rule {
    let limit: Limit = "5/minute".parse().unwrap();
    Rule { id: Fingerprint::NONE, limit, enforced: true, staggered: false }
}

fn item(n: u64) -> Item {
    Item::new(b"", &Charge::new(Fingerprint::new(n, n), Cost::ONE, &rule()))
}

fn ask(n: u64) -> Ask {
    Ask::Settle(std::iter::once(item(n)).collect())
}

/// Each of them asks about somebody else.
async fn ask_all(queue: &Arc<Queue<Tower>>, all: Range<u64>) -> Vec<JoinHandle<Answer>> {
    let asked = all.map(|n| ask_about(queue, n)).collect();
    settle().await;
    asked
}

fn ask_about(queue: &Arc<Queue<Tower>>, n: u64) -> JoinHandle<Answer> {
    let queue = Arc::clone(queue);
    tokio::spawn(async move { queue.ask(ask(n)).await })
}

/// A queue whose last call took long.
async fn far_queue() -> (Arc<Queue<Tower>>, Tower) {
    let (queue, tower) = queue();
    let _first = ask_all(&queue, 0..1).await;
    tokio::time::advance(FAR).await;
    tower.land().await;
    tower.departures();
    (queue, tower)
}

fn queue() -> (Arc<Queue<Tower>>, Tower) {
    let tower = Tower::default();
    (Queue::new(tower.clone(), vec![1, 0], DEPTH, 1_000, Deadline::new(DEADLINE)), tower)
}
