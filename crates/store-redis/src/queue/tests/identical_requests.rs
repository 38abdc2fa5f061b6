//! Identical requests wait as one.

use super::*;

/// Joins a waiting request for one unit of counter `n`, if there is one.
fn join(queue: &Arc<RedisQueue<FakeTransport>>, n: u64) -> Option<PendingReply> {
    queue.join_identical(&Charge::new(Fingerprint::new(n, n), Cost::ONE, &rule()))
}

#[tokio::test(start_paused = true)]
async fn identical_requests_share_one_entry() {
    let (queue, transport) = queue();
    assert!(join(&queue, 7).is_none());
    let first = queue.enqueue(ask(7));
    let (second, gone, other) = (join(&queue, 7), join(&queue, 7), join(&queue, 8));
    assert!(gone.is_some() && other.is_none());
    drop(gone);
    run_until_idle().await;
    assert_eq!(transport.sent_calls(), [(0, 2)]);
    // A request that was sent cannot be joined.
    assert!(join(&queue, 7).is_none());
    transport.answer_one().await;
    assert!(first.await.is_ok() && second.unwrap().await.is_ok());
    assert_eq!(queue.backlog.lock().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_does_not_join_an_entry_that_later_requests_follow() {
    let costs_more =
        || RedisRequest::Settle(vec![RedisCharge { cost: Cost::new(2).unwrap(), ..item(7) }]);
    let several = || RedisRequest::Settle(vec![item(1), item(7)]);
    for later in [
        costs_more(),
        several(),
        RedisRequest::Refund(Box::new(item(7))),
        RedisRequest::Reset(Box::new(item(7))),
    ] {
        let (queue, transport) = queue();
        let _asked = [queue.enqueue(ask(7)), queue.enqueue(later)];
        assert!(join(&queue, 7).is_none());
        run_until_idle().await;
        assert_eq!(transport.sent_calls(), [(0, 2)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_crowd_is_bounded_and_so_is_the_queue() {
    let queue = RedisQueue::new(
        FakeTransport::default(),
        vec![0],
        DEPTH,
        1_000,
        RedisDeadline::new(DEADLINE),
    );
    let _first = queue.enqueue(ask(7));
    let crowd: Vec<_> = std::iter::from_fn(|| join(&queue, 7)).collect();
    assert_eq!(crowd.len(), RedisBatch::MAX_REQUESTS / 2 - 1);
    let _others: Vec<_> = (0..1_000 - 1 - crowd.len()).map(|_| queue.enqueue(ask(8))).collect();
    assert_eq!(queue.backlog.lock().len(), 1_000);
    assert!(join(&queue, 8).is_none());
}
