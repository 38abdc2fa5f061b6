//! Who flies with whom.

use tidegate_core::{Charge, Cost, Fingerprint, Limit, Rule};
use tidegate_store::Verdicts;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

use super::*;
use crate::batch::Item;

/// Keeps calls in the air until they may land, and notes where each went and how full it was.
#[derive(Clone)]
struct Tower {
    departures: Arc<Mutex<Vec<(usize, usize)>>>,
    landing: Arc<Semaphore>,
}

impl Default for Tower {
    fn default() -> Self {
        Self { departures: Arc::default(), landing: Arc::new(Semaphore::new(0)) }
    }
}

impl Carrier for Tower {
    fn keeps_slots_apart(&self) -> bool {
        false
    }

    async fn carry(&self, lane: usize, parcel: &Parcel) -> Vec<Answer> {
        self.departures.lock().push((lane, parcel.asks().len()));
        self.landing.acquire().await.unwrap().forget();
        parcel.asks().iter().map(|_| Ok((true, Verdicts::new()))).collect()
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

fn ask(n: u64) -> Ask {
    let limit: Limit = "5/minute".parse().unwrap();
    let rule = Rule { id: Fingerprint::NONE, limit, enforced: true, staggered: false };
    let charge = Charge::new(Fingerprint::new(n, n), Cost::ONE, &rule);
    Ask::Settle(std::iter::once(Item::new(b"", &charge)).collect())
}

async fn ask_all(queue: &Arc<Queue<Tower>>, count: u64) -> Vec<JoinHandle<Answer>> {
    let one = |n| {
        let queue = Arc::clone(queue);
        tokio::spawn(async move { queue.ask(ask(n)).await })
    };
    let asked = (0..count).map(one).collect();
    settle().await;
    asked
}

fn queue() -> (Arc<Queue<Tower>>, Tower) {
    let tower = Tower::default();
    (Queue::new(tower.clone(), vec![1, 0], 1_000), tower)
}

#[tokio::test(start_paused = true)]
async fn a_lone_caller_waits_for_nobody_and_keeps_to_one_connection() {
    let (queue, tower) = queue();
    for _ in 0..3 {
        let asked = ask_all(&queue, 1).await;
        tower.land().await;
        asked.into_iter().for_each(|asked| assert!(asked.is_finished()));
    }
    assert_eq!(tower.departures(), [(0, 1); 3]);
}

#[tokio::test(start_paused = true)]
async fn many_share_two_flights_evenly() {
    let (queue, tower) = queue();
    let _asked = ask_all(&queue, 64).await;
    assert_eq!(tower.departures(), [(0, 32), (1, 32)]);
}

#[tokio::test(start_paused = true)]
async fn a_few_wait_for_a_full_flight_and_many_do_not() {
    let (queue, tower) = queue();
    let _first = ask_all(&queue, 15).await;
    assert_eq!(tower.departures(), [(0, 15)]);
    let _few = ask_all(&queue, 7).await;
    assert_eq!(tower.departures(), []);
    let _one_more = ask_all(&queue, 1).await;
    assert_eq!(tower.departures(), [(1, 8)]);
    // Both connections are taken: whoever comes now waits, and leaves with the next one.
    let _late = ask_all(&queue, 100).await;
    assert_eq!(tower.departures(), []);
    tower.land().await;
    assert_eq!(tower.departures(), [(0, 100)]);
}

#[tokio::test(start_paused = true)]
async fn who_stops_waiting_does_not_fly_and_a_full_queue_refuses() {
    let tower = Tower::default();
    let queue = Queue::new(tower.clone(), vec![0], 2);
    let flying = ask_all(&queue, 1).await;
    let waiting = ask_all(&queue, 2).await;
    let error = queue.ask(ask(9)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Overloaded);
    waiting.iter().for_each(JoinHandle::abort);
    settle().await;
    tower.land().await;
    assert!(flying.into_iter().all(|asked| asked.is_finished()));
    assert_eq!(tower.departures(), [(0, 1)]);
    assert!(queue.waiting.lock().under_way.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_flight_that_ends_early_makes_room_for_another() {
    let (queue, tower) = queue();
    let lost = queue.clone();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async { drop(ask_all(&lost, 20).await) });
    })
    .join()
    .unwrap();
    assert_eq!(tower.departures(), [(0, 10), (1, 10)]);
    let asked = ask_all(&queue, 1).await;
    tower.land().await;
    assert!(asked.into_iter().all(|asked| asked.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn only_connections_with_a_late_call_are_overdue() {
    let (queue, tower) = queue();
    let _asked = ask_all(&queue, 32).await;
    tokio::time::advance(Duration::from_millis(8)).await;
    assert_eq!(queue.overdue(Duration::from_millis(8)), [0, 1]);
    assert_eq!(queue.overdue(Duration::from_millis(9)), []);
    tower.land().await;
    assert_eq!(queue.overdue(Duration::from_millis(8)).len(), 1);
}

/// A runtime that somebody keeps and does not drive any more holds up nobody else.
#[test]
fn a_flight_whose_runtime_stands_still_is_not_waited_for() {
    let (queue, tower) = queue();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (stands_still, goes_on) = (runtime(), runtime());
    tower.landing.add_permits(2);
    assert!(stands_still.block_on(queue.ask(ask(1))).is_ok());
    let answer = goes_on.block_on(async {
        tokio::time::sleep(2 * MOMENT).await;
        tokio::time::timeout(Duration::from_secs(10), queue.ask(ask(2))).await
    });
    assert!(answer.is_ok_and(|answer| answer.is_ok()));
}

#[tokio::test(start_paused = true)]
async fn a_full_flight_that_takes_long_is_not_waited_for() {
    let (queue, tower) = queue();
    let _full = ask_all(&queue, 15).await;
    assert_eq!(tower.departures(), [(0, 15)]);
    tokio::time::advance(MOMENT).await;
    let _one = ask_all(&queue, 1).await;
    assert_eq!(tower.departures(), [(1, 1)]);
}
