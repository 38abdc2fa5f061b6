//! Who flies with whom.

use std::ops::Range;

use tidegate_core::{Charge, Cost, Fingerprint, Limit, Rule};
use tidegate_store::Verdicts;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

use super::waiting::MOMENT;
use super::*;
use crate::batch::Item;

const DEADLINE: Duration = Duration::from_millis(10);

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
        self.departures.lock().push((lane, parcel.requests()));
        self.landing.acquire().await.unwrap().forget();
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

fn queue() -> (Arc<Queue<Tower>>, Tower) {
    let tower = Tower::default();
    (Queue::new(tower.clone(), vec![1, 0], 1_000, Deadline::new(DEADLINE)), tower)
}

#[tokio::test(start_paused = true)]
async fn a_lone_caller_waits_for_nobody_and_keeps_to_one_connection() {
    let (queue, tower) = queue();
    for _ in 0..3 {
        let asked = ask_all(&queue, 0..1).await;
        tower.land().await;
        asked.into_iter().for_each(|asked| assert!(asked.is_finished()));
    }
    assert_eq!(tower.departures(), [(0, 1); 3]);
}

#[tokio::test(start_paused = true)]
async fn many_share_two_flights_evenly() {
    let (queue, tower) = queue();
    let _asked = ask_all(&queue, 0..64).await;
    assert_eq!(tower.departures(), [(0, 32), (1, 32)]);
}

#[tokio::test(start_paused = true)]
async fn a_few_wait_for_a_full_flight_and_many_do_not() {
    let (queue, tower) = queue();
    let _first = ask_all(&queue, 0..15).await;
    assert_eq!(tower.departures(), [(0, 15)]);
    let _few = ask_all(&queue, 15..22).await;
    assert_eq!(tower.departures(), []);
    let _one_more = ask_all(&queue, 22..23).await;
    assert_eq!(tower.departures(), [(1, 8)]);
    // Both connections are taken: whoever comes now waits, and leaves with the next one.
    let _late = ask_all(&queue, 23..123).await;
    assert_eq!(tower.departures(), []);
    tower.land().await;
    assert_eq!(tower.departures(), [(0, 100)]);
}

#[tokio::test(start_paused = true)]
async fn a_counter_is_under_way_on_one_connection_and_others_beside_it() {
    let (queue, tower) = queue();
    let first = ask_about(&queue, 7);
    settle().await;
    let again = ask_all(&queue, 7..8).await;
    assert_eq!(tower.departures(), [(0, 1)]);
    let _other = ask_all(&queue, 8..9).await;
    assert_eq!(tower.departures(), [(1, 1)]);
    tower.land().await;
    assert!(first.is_finished() && !again[0].is_finished());
    assert_eq!(tower.departures(), [(0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_one_counter_keeps_back_later_ones_of_the_other() {
    let (queue, tower) = queue();
    let both = || {
        let items = [ask(1), ask(2)].into_iter().flat_map(|ask| ask.items().to_vec());
        Ask::Settle(items.collect())
    };
    let _one = ask_all(&queue, 1..2).await;
    let (queue_of_both, queue_of_one) = (queue.clone(), queue.clone());
    let _both = tokio::spawn(async move { queue_of_both.ask(both()).await });
    settle().await;
    let _two = tokio::spawn(async move { queue_of_one.ask(ask(2)).await });
    settle().await;
    assert_eq!(tower.departures(), [(0, 1)]);
    tower.land().await;
    assert_eq!(tower.departures(), [(0, 2)]);
}

#[tokio::test(start_paused = true)]
async fn all_that_is_asked_of_one_counter_shares_a_call() {
    let (queue, tower) = queue();
    let _asked: Vec<_> = (0..64).map(|_| ask_about(&queue, 7)).collect();
    settle().await;
    assert_eq!(tower.departures(), [(0, 64)]);
}

/// Asks for one unit of counter `n`, if somebody waits for the same.
fn join(queue: &Arc<Queue<Tower>>, n: u64) -> Option<Asked> {
    queue.join(&Charge::new(Fingerprint::new(n, n), Cost::ONE, &rule()))
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_what_somebody_waits_for_waits_as_one_with_them() {
    let (queue, tower) = queue();
    assert!(join(&queue, 7).is_none());
    let first = queue.ask(ask(7));
    let (second, gone, other) = (join(&queue, 7), join(&queue, 7), join(&queue, 8));
    assert!(gone.is_some() && other.is_none());
    drop(gone);
    settle().await;
    assert_eq!(tower.departures(), [(0, 2)]);
    // What has left takes nobody along.
    assert!(join(&queue, 7).is_none());
    tower.land().await;
    assert!(first.await.is_ok() && second.unwrap().await.is_ok());
    assert_eq!(queue.waiting.lock().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_joins_past_what_was_asked_of_the_counter_later() {
    let costs_more = || Ask::Settle(vec![Item { cost: Cost::new(2).unwrap(), ..item(7) }].into());
    let several = || Ask::Settle(vec![item(1), item(7)].into());
    for later in [costs_more(), several(), Ask::Refund(item(7)), Ask::Reset(item(7))] {
        let (queue, tower) = queue();
        let _asked = [queue.ask(ask(7)), queue.ask(later)];
        assert!(join(&queue, 7).is_none());
        settle().await;
        assert_eq!(tower.departures(), [(0, 2)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_crowd_is_bounded_and_so_is_the_queue() {
    let queue = Queue::new(Tower::default(), vec![0], 1_000, Deadline::new(DEADLINE));
    let _first = queue.ask(ask(7));
    let crowd: Vec<_> = std::iter::from_fn(|| join(&queue, 7)).collect();
    assert_eq!(crowd.len(), Batch::MAX_REQUESTS / 2 - 1);
    let _others: Vec<_> = (0..1_000 - 1 - crowd.len()).map(|_| queue.ask(ask(8))).collect();
    assert_eq!(queue.waiting.lock().len(), 1_000);
    assert!(join(&queue, 8).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_is_under_way_for_too_long_is_not_waited_for() {
    let (queue, tower) = queue();
    let _lost = ask_all(&queue, 7..8).await;
    let _waits = ask_all(&queue, 7..8).await;
    tokio::time::advance(DEADLINE).await;
    let _late = ask_all(&queue, 7..8).await;
    assert_eq!(tower.departures(), [(0, 1), (1, 2)]);
}

#[tokio::test(start_paused = true)]
async fn one_among_many_for_one_counter_comes_along() {
    let (queue, tower) = queue();
    let _asked: Vec<_> =
        (0..101).map(|n| ask_about(&queue, if n == 100 { 8 } else { 7 })).collect();
    settle().await;
    assert_eq!(tower.departures(), [(0, 101)]);
    // However many asked, it was one counter: nobody waits for it as for a full flight.
    let _other = ask_all(&queue, 9..10).await;
    assert_eq!(tower.departures(), [(1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn who_is_held_does_not_keep_others_from_a_flight() {
    let (queue, tower) = queue();
    let _full = ask_all(&queue, 0..8).await;
    let _one = ask_all(&queue, 8..9).await;
    assert_eq!(tower.departures(), [(0, 8)]);
    tokio::time::advance(MOMENT).await;
    let _held = ask_all(&queue, 0..1).await;
    assert_eq!(tower.departures(), [(1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn where_calls_take_long_nobody_waits_for_one() {
    let (queue, tower) = queue();
    let first = ask_all(&queue, 0..15).await;
    tokio::time::advance(MOMENT).await;
    tower.land().await;
    assert!(first.iter().all(JoinHandle::is_finished));
    let _full = ask_all(&queue, 0..15).await;
    let _one = ask_all(&queue, 15..16).await;
    assert_eq!(tower.departures(), [(0, 15), (0, 15), (1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn who_stops_waiting_does_not_fly_and_a_full_queue_refuses() {
    let tower = Tower::default();
    let queue = Queue::new(tower.clone(), vec![0], 2, Deadline::new(DEADLINE));
    let flying = ask_all(&queue, 0..1).await;
    let waiting = ask_all(&queue, 1..3).await;
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
        runtime.block_on(async { drop(ask_all(&lost, 0..20).await) });
    })
    .join()
    .unwrap();
    assert_eq!(tower.departures(), [(0, 10), (1, 10)]);
    let asked = ask_all(&queue, 0..1).await;
    tower.land().await;
    assert!(asked.into_iter().all(|asked| asked.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn only_connections_with_a_late_call_are_overdue() {
    let (queue, tower) = queue();
    let _asked = ask_all(&queue, 0..32).await;
    tokio::time::advance(Duration::from_millis(8)).await;
    assert_eq!(queue.overdue(Duration::from_millis(8)), [0, 1]);
    assert_eq!(queue.overdue(Duration::from_millis(9)), [0_usize; 0]);
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
    assert!(stands_still.block_on(async { queue.ask(ask(1)).await }).is_ok());
    let answer = goes_on.block_on(async {
        tokio::time::sleep(2 * MOMENT).await;
        tokio::time::timeout(Duration::from_secs(10), queue.ask(ask(2))).await
    });
    assert!(answer.is_ok_and(|answer| answer.is_ok()));
}

#[tokio::test(start_paused = true)]
async fn a_full_flight_that_takes_long_is_not_waited_for() {
    let (queue, tower) = queue();
    let _full = ask_all(&queue, 0..15).await;
    assert_eq!(tower.departures(), [(0, 15)]);
    tokio::time::advance(MOMENT).await;
    let _one = ask_all(&queue, 15..16).await;
    assert_eq!(tower.departures(), [(1, 1)]);
}
