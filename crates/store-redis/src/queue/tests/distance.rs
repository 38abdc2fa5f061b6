//! A far Redis: calls follow one another, and no request waits for two of them.

use tokio::time::{advance, sleep, timeout};

use super::*;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A queue to a Redis whose answers take this long.
fn queue_to(distance: Duration) -> (Arc<RedisQueue<FakeTransport>>, FakeTransport) {
    let transport = FakeTransport { distance: Some(distance), ..FakeTransport::default() };
    (
        RedisQueue::new(transport.clone(), vec![1, 0], DEPTH, 10_000, RedisDeadline::new(DEADLINE)),
        transport,
    )
}

/// How many requests are not answered in time, if this many arrive in each millisecond.
async fn missed(
    queue: &Arc<RedisQueue<FakeTransport>>,
    in_a_millisecond: u64,
    counters: u64,
) -> usize {
    // The first call measures the round trip.
    queue.enqueue(ask(0)).await.unwrap();
    let mut asked = Vec::new();
    for n in 0..200 * in_a_millisecond {
        let answer = queue.enqueue(ask(n % counters));
        asked.push(tokio::spawn(async move { timeout(DEADLINE, answer).await.is_err() }));
        if n % in_a_millisecond == 0 {
            sleep(millis(1)).await;
        }
    }
    let mut missed = 0;
    for one in asked {
        missed += usize::from(one.await.unwrap());
    }
    missed
}

#[tokio::test(start_paused = true)]
async fn all_requests_are_answered_in_time_at_any_distance_below_the_deadline() {
    for distance in 1..=8 {
        // Few callers, many callers, and many callers with the same request.
        for (in_a_millisecond, counters) in [(1, 12), (5, 1_000), (5, 1), (50, 1_000)] {
            let (queue, transport) = queue_to(millis(distance));
            let missed = missed(&queue, in_a_millisecond, counters).await;
            assert_eq!(missed, 0, "{distance} ms, {in_a_millisecond} of {counters} counters");
            // At most one from each connection every half a millisecond, and not one for each request.
            let calls = transport.sent_calls().len();
            assert!(calls <= 4 * (200 + 10), "{calls} calls");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_timer_where_there_is_no_millisecond_to_spare() {
    // A timer may be a millisecond late.
    for (distance, leaves_at_once) in [(4, false), (7, true), (8, true)] {
        let (queue, transport) = queue_to(millis(distance));
        queue.enqueue(ask(0)).await.unwrap();
        let _under_way = (ask_all(&queue, 1..2).await, ask_all(&queue, 2..3).await);
        transport.sent_calls();
        advance(Duration::from_micros(100)).await;
        let _later = ask_all(&queue, 3..4).await;
        assert_eq!(transport.sent_calls().len(), usize::from(leaves_at_once), "{distance} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_to_one_counter_are_answered_in_order() {
    let (queue, _tower) = queue_to(millis(6));
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut asked = Vec::new();
    for n in 0..100 {
        let (answer, order) = (queue.enqueue(ask(7)), Arc::clone(&order));
        asked.push(tokio::spawn(async move {
            answer.await.unwrap();
            order.lock().push(n);
        }));
        sleep(millis(1)).await;
    }
    for one in asked {
        one.await.unwrap();
    }
    assert_eq!(*order.lock(), (0..100).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_decided_however_far_it_is() {
    let (queue, _tower) = queue_to(millis(7));
    queue.enqueue(ask(0)).await.unwrap();
    for _ in 0..3 {
        let asked: Vec<_> = (0..400).map(|n| timeout(DEADLINE, queue.enqueue(ask(n)))).collect();
        for answer in asked {
            assert!(answer.await.is_ok_and(|answer| answer.is_ok()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_so_many_calls_are_under_way_if_none_is_answered() {
    let (queue, transport) = far_queue().await;
    let mut asked = Vec::new();
    for n in 0..10 * DEPTH as u64 {
        asked.extend(ask_all(&queue, n..n + 1).await);
        advance(MOMENT).await;
    }
    run_until_idle().await;
    let departures = transport.sent_calls();
    for lane in [0, 1] {
        assert_eq!(departures.iter().filter(|(at, _)| *at == lane).count(), DEPTH);
    }
    // One answer makes room for all that have gathered, as far as they fit into a call.
    transport.answer_one().await;
    assert_eq!(transport.sent_calls(), [(0, RedisBatch::MAX_KEYS)]);
}

#[tokio::test(start_paused = true)]
async fn with_a_near_redis_requests_gather_while_a_call_is_under_way() {
    let (queue, transport) = queue();
    let _first = ask_all(&queue, 0..2).await;
    assert_eq!(transport.sent_calls(), [(0, 2)]);
    let _second = ask_all(&queue, 2..4).await;
    assert_eq!(transport.sent_calls(), [(1, 2)]);
    advance(MOMENT).await;
    let _gathered = ask_all(&queue, 4..100).await;
    assert_eq!(transport.sent_calls(), []);
    transport.answer_one().await;
    assert_eq!(transport.sent_calls(), [(0, 96)]);
}
