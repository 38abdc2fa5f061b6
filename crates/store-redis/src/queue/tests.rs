//! Which requests share a call.

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

/// Holds calls until the test answers them, and records each one's connection and size.
#[derive(Clone)]
struct FakeTransport {
    sent_calls: Arc<Mutex<Vec<(usize, usize)>>>,
    permits: Arc<Semaphore>,
    /// Answers calls after this time instead.
    distance: Option<Duration>,
}

impl Default for FakeTransport {
    fn default() -> Self {
        Self { sent_calls: Arc::default(), permits: Arc::new(Semaphore::new(0)), distance: None }
    }
}

impl RedisTransport for FakeTransport {
    fn needs_single_slot(&self) -> bool {
        false
    }

    async fn send(&self, lane: usize, batch_call: &BatchCall) -> Vec<RedisAnswer> {
        self.sent_calls.lock().push((lane, batch_call.requests()));
        match self.distance {
            Some(time) => tokio::time::sleep(time).await,
            None => self.permits.acquire().await.unwrap().forget(),
        }
        (0..batch_call.requests()).map(|_| Ok((true, Verdicts::new()))).collect()
    }
}

impl FakeTransport {
    /// Answers one call.
    async fn answer_one(&self) {
        self.permits.add_permits(1);
        run_until_idle().await;
    }

    fn sent_calls(&self) -> Vec<(usize, usize)> {
        std::mem::take(&mut self.sent_calls.lock())
    }
}

/// Lets all tasks run until each waits: on a runtime of one thread, tasks take turns.
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

/// Queues a request for each of these counters.
async fn ask_all(
    queue: &Arc<RedisQueue<FakeTransport>>,
    all: Range<u64>,
) -> Vec<JoinHandle<RedisAnswer>> {
    let tasks = all.map(|n| ask_about(queue, n)).collect();
    run_until_idle().await;
    tasks
}

fn ask_about(queue: &Arc<RedisQueue<FakeTransport>>, n: u64) -> JoinHandle<RedisAnswer> {
    let queue = Arc::clone(queue);
    tokio::spawn(async move { queue.enqueue(ask(n)).await })
}

/// A queue whose last call took as long as to a far Redis.
async fn far_queue() -> (Arc<RedisQueue<FakeTransport>>, FakeTransport) {
    let (queue, transport) = queue();
    let _first = ask_all(&queue, 0..1).await;
    tokio::time::advance(LONG_ROUND_TRIP).await;
    transport.answer_one().await;
    transport.sent_calls();
    (queue, transport)
}

fn queue() -> (Arc<RedisQueue<FakeTransport>>, FakeTransport) {
    let transport = FakeTransport::default();
    (
        RedisQueue::new(transport.clone(), vec![1, 0], DEPTH, 1_000, RedisDeadline::new(DEADLINE)),
        transport,
    )
}
