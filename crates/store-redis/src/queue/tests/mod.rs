//! Who flies with whom.

mod counters;
mod delays;
mod distance;
mod identical_requests;
mod senders;

use std::ops::Range;

use tidegate_core::{Charge, Cost, Fingerprint, Limit, Rule};
use tidegate_store::Verdicts;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

use super::call_schedule::{LONG_ROUND_TRIP, MOMENT};
use super::*;
use crate::batch::RedisCharge;

const DEADLINE: Duration = Duration::from_millis(10);
const DEPTH: usize = 32;

/// Keeps calls in the air until they may land, and notes where each went and how full it was.
#[derive(Clone)]
struct FakeTransport {
    sent_calls: Arc<Mutex<Vec<(usize, usize)>>>,
    landing: Arc<Semaphore>,
    /// Or lets them land after this time.
    distance: Option<Duration>,
}

impl Default for FakeTransport {
    fn default() -> Self {
        Self { sent_calls: Arc::default(), landing: Arc::new(Semaphore::new(0)), distance: None }
    }
}

impl RedisTransport for FakeTransport {
    fn needs_single_slot(&self) -> bool {
        false
    }

    async fn send(&self, lane: usize, parcel: &BatchCall) -> Vec<RedisAnswer> {
        self.sent_calls.lock().push((lane, parcel.requests()));
        match self.distance {
            Some(time) => tokio::time::sleep(time).await,
            None => self.landing.acquire().await.unwrap().forget(),
        }
        (0..parcel.requests()).map(|_| Ok((true, Verdicts::new()))).collect()
    }
}

impl FakeTransport {
    /// Lets one call land.
    async fn answer_one(&self) {
        self.landing.add_permits(1);
        run_until_idle().await;
    }

    fn sent_calls(&self) -> Vec<(usize, usize)> {
        std::mem::take(&mut self.sent_calls.lock())
    }
}

/// All that can happen has happened: on a runtime of one thread, tasks take turns.
async fn run_until_idle() {
    for _ in 0..1_000 {
        yield_now().await;
    }
}

fn rule() -> Rule {
    let limit: Limit = "5/minute".parse().unwrap();
    Rule { id: Fingerprint::NONE, limit, enforced: true, staggered: false }
}

fn item(n: u64) -> RedisCharge {
    RedisCharge::new(b"", &Charge::new(Fingerprint::new(n, n), Cost::ONE, &rule()))
}

fn ask(n: u64) -> RedisRequest {
    RedisRequest::Settle(std::iter::once(item(n)).collect())
}

/// Each of them asks about somebody else.
async fn ask_all(
    queue: &Arc<RedisQueue<FakeTransport>>,
    all: Range<u64>,
) -> Vec<JoinHandle<RedisAnswer>> {
    let asked = all.map(|n| ask_about(queue, n)).collect();
    run_until_idle().await;
    asked
}

fn ask_about(queue: &Arc<RedisQueue<FakeTransport>>, n: u64) -> JoinHandle<RedisAnswer> {
    let queue = Arc::clone(queue);
    tokio::spawn(async move { queue.enqueue(ask(n)).await })
}

/// A queue whose last call took long.
async fn far_queue() -> (Arc<RedisQueue<FakeTransport>>, FakeTransport) {
    let (queue, tower) = queue();
    let _first = ask_all(&queue, 0..1).await;
    tokio::time::advance(LONG_ROUND_TRIP).await;
    tower.answer_one().await;
    tower.sent_calls();
    (queue, tower)
}

fn queue() -> (Arc<RedisQueue<FakeTransport>>, FakeTransport) {
    let tower = FakeTransport::default();
    (RedisQueue::new(tower.clone(), vec![1, 0], DEPTH, 1_000, RedisDeadline::new(DEADLINE)), tower)
}
