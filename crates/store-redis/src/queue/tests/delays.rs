//! Calls that take long do not delay other requests.

use super::*;

#[tokio::test(start_paused = true)]
async fn with_slow_calls_no_request_waits_for_a_free_one() {
    let (queue, transport) = queue();
    let first = ask_all(&queue, 0..15).await;
    tokio::time::advance(MOMENT).await;
    transport.answer_one().await;
    assert!(first.iter().all(JoinHandle::is_finished));
    let _full = ask_all(&queue, 0..15).await;
    let _one = ask_all(&queue, 15..16).await;
    assert_eq!(transport.sent_calls(), [(0, 15), (0, 15), (1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_full_flight_that_takes_long_is_not_waited_for() {
    let (queue, transport) = queue();
    let _full = ask_all(&queue, 0..15).await;
    assert_eq!(transport.sent_calls(), [(0, 15)]);
    tokio::time::advance(MOMENT).await;
    let _one = ask_all(&queue, 15..16).await;
    assert_eq!(transport.sent_calls(), [(1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn only_connections_with_a_late_call_are_overdue() {
    let (queue, transport) = queue();
    let _asked = ask_all(&queue, 0..32).await;
    tokio::time::advance(Duration::from_millis(8)).await;
    assert_eq!(queue.late_lanes(Duration::from_millis(9)), [0_usize; 0]);
    assert_eq!(queue.late_lanes(Duration::from_millis(8)), [0, 1]);
    // Another miss at the same moment is not reported again.
    assert_eq!(queue.late_lanes(Duration::from_millis(8)), [0_usize; 0]);
    tokio::time::advance(LONG_ROUND_TRIP).await;
    transport.answer_one().await;
    assert_eq!(queue.late_lanes(Duration::from_millis(8)).len(), 1);
}

/// A runtime that is kept alive but no longer driven does not delay callers on another one.
#[test]
fn a_flight_whose_runtime_stands_still_is_not_waited_for() {
    let (queue, transport) = queue();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (stands_still, goes_on) = (runtime(), runtime());
    transport.permits.add_permits(2);
    assert!(stands_still.block_on(async { queue.enqueue(ask(1)).await }).is_ok());
    let answer = goes_on.block_on(async {
        tokio::time::sleep(2 * MOMENT).await;
        tokio::time::timeout(Duration::from_secs(10), queue.enqueue(ask(2))).await
    });
    assert!(answer.is_ok_and(|answer| answer.is_ok()));
}
