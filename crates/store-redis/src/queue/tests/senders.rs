//! Requests share calls, and senders share connections.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_lone_caller_waits_for_nobody_and_keeps_to_one_connection() {
    let (queue, transport) = queue();
    for _ in 0..3 {
        let asked = ask_all(&queue, 0..1).await;
        transport.answer_one().await;
        asked.into_iter().for_each(|asked| assert!(asked.is_finished()));
    }
    assert_eq!(transport.sent_calls(), [(0, 1); 3]);
}

#[tokio::test(start_paused = true)]
async fn many_share_two_flights_evenly() {
    let (queue, transport) = queue();
    let _asked = ask_all(&queue, 0..64).await;
    assert_eq!(transport.sent_calls(), [(0, 32), (1, 32)]);
}

#[tokio::test(start_paused = true)]
async fn a_few_wait_for_a_full_flight_and_many_do_not() {
    let (queue, transport) = queue();
    let _first = ask_all(&queue, 0..15).await;
    assert_eq!(transport.sent_calls(), [(0, 15)]);
    let _few = ask_all(&queue, 15..22).await;
    assert_eq!(transport.sent_calls(), []);
    let _one_more = ask_all(&queue, 22..23).await;
    assert_eq!(transport.sent_calls(), [(1, 8)]);
    // Both connections are busy: later requests wait, and share the next call.
    let _late = ask_all(&queue, 23..123).await;
    assert_eq!(transport.sent_calls(), []);
    transport.answer_one().await;
    assert_eq!(transport.sent_calls(), [(0, 100)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_held_back_does_not_delay_others() {
    let (queue, transport) = queue();
    let _full = ask_all(&queue, 0..8).await;
    let _one = ask_all(&queue, 8..9).await;
    assert_eq!(transport.sent_calls(), [(0, 8)]);
    tokio::time::advance(MOMENT).await;
    let _held = ask_all(&queue, 0..1).await;
    assert_eq!(transport.sent_calls(), [(1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_is_not_sent_and_a_full_queue_refuses() {
    let transport = FakeTransport::default();
    let queue = RedisQueue::new(transport.clone(), vec![0], DEPTH, 2, RedisDeadline::new(DEADLINE));
    let flying = ask_all(&queue, 0..1).await;
    let waiting = ask_all(&queue, 1..3).await;
    let error = queue.enqueue(ask(9)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Overloaded);
    waiting.iter().for_each(JoinHandle::abort);
    run_until_idle().await;
    transport.answer_one().await;
    assert!(flying.into_iter().all(|asked| asked.is_finished()));
    assert_eq!(transport.sent_calls(), [(0, 1)]);
    assert!(queue.backlog.lock().schedule.is_quiet());
}

#[tokio::test(start_paused = true)]
async fn a_flight_that_ends_early_makes_room_for_another() {
    let (queue, transport) = queue();
    let lost = queue.clone();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async { drop(ask_all(&lost, 0..20).await) });
    })
    .join()
    .unwrap();
    assert_eq!(transport.sent_calls(), [(0, 10), (1, 10)]);
    let asked = ask_all(&queue, 0..1).await;
    transport.answer_one().await;
    assert!(asked.into_iter().all(|asked| asked.is_finished()));
}
