//! A counter is in flight on one connection only.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_counter_is_under_way_on_one_connection_and_others_beside_it() {
    let (queue, transport) = queue();
    let first = ask_about(&queue, 7);
    run_until_idle().await;
    let again = ask_all(&queue, 7..8).await;
    assert_eq!(transport.sent_calls(), [(0, 1)]);
    let _other = ask_all(&queue, 8..9).await;
    assert_eq!(transport.sent_calls(), [(1, 1)]);
    transport.answer_one().await;
    assert!(first.is_finished() && !again[0].is_finished());
    assert_eq!(transport.sent_calls(), [(0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_two_counters_holds_back_later_requests_for_either() {
    let (queue, transport) = queue();
    let both = || {
        let items = [ask(1), ask(2)].into_iter().flat_map(|ask| ask.items().to_vec());
        RedisRequest::Settle(items.collect())
    };
    let _one = ask_all(&queue, 1..2).await;
    let (queue_of_both, queue_of_one) = (queue.clone(), queue.clone());
    let _both = tokio::spawn(async move { queue_of_both.enqueue(both()).await });
    run_until_idle().await;
    let _two = tokio::spawn(async move { queue_of_one.enqueue(ask(2)).await });
    run_until_idle().await;
    assert_eq!(transport.sent_calls(), [(0, 1)]);
    transport.answer_one().await;
    assert_eq!(transport.sent_calls(), [(0, 2)]);
}

#[tokio::test(start_paused = true)]
async fn all_that_is_asked_of_one_counter_shares_a_call() {
    let (queue, transport) = queue();
    let _asked: Vec<_> = (0..64).map(|_| ask_about(&queue, 7)).collect();
    run_until_idle().await;
    assert_eq!(transport.sent_calls(), [(0, 64)]);
}

#[tokio::test(start_paused = true)]
async fn one_among_many_for_one_counter_comes_along() {
    let (queue, transport) = queue();
    let _asked: Vec<_> =
        (0..101).map(|n| ask_about(&queue, if n == 100 { 8 } else { 7 })).collect();
    run_until_idle().await;
    assert_eq!(transport.sent_calls(), [(0, 101)]);
    // Many requests for one counter are not a full call, so later requests do not wait for it.
    let _other = ask_all(&queue, 9..10).await;
    assert_eq!(transport.sent_calls(), [(1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_is_under_way_for_too_long_is_not_waited_for() {
    let transport = FakeTransport::default();
    let queue =
        RedisQueue::new(transport.clone(), vec![1, 0], 1, 1_000, RedisDeadline::new(DEADLINE));
    let _lost = ask_all(&queue, 7..8).await;
    let _waits = ask_all(&queue, 7..8).await;
    tokio::time::advance(DEADLINE).await;
    let _late = ask_all(&queue, 7..8).await;
    assert_eq!(transport.sent_calls(), [(0, 1), (1, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_is_under_way_follows_on_its_connection_only() {
    let (queue, transport) = far_queue().await;
    let _first = ask_all(&queue, 7..8).await;
    let _again = ask_all(&queue, 7..8).await;
    assert_eq!(transport.sent_calls(), [(0, 1)]);
    tokio::time::advance(MOMENT).await;
    run_until_idle().await;
    assert_eq!(transport.sent_calls(), [(0, 1)]);
    // A request for counters of both connections waits for one of them.
    let _other = ask_all(&queue, 8..9).await;
    assert_eq!(transport.sent_calls(), [(1, 1)]);
    tokio::time::advance(MOMENT).await;
    let items = [7, 8].map(item).to_vec();
    let both = queue.enqueue(RedisRequest::Settle(items));
    let _behind = ask_all(&queue, 7..9).await;
    assert_eq!(transport.sent_calls(), []);
    transport.answer_one().await;
    transport.answer_one().await;
    assert_eq!(transport.sent_calls(), [(1, 3)]);
    drop(both);
}
