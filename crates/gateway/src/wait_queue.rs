//! `on_denied: wait`: denied requests wait in a queue for their turn, and are denied only if that takes
//! too long.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate::{
    Charge, ChargeIntent, Decision, RequestCharges, Span, Store, WaitInLine, WaitQueues,
};
use tidegate_server::App;

use crate::buffers::BufferBudget;
use crate::config::GatewayPolicy;

/// Decides about a request. If its policy has `on_denied: wait`, a denied request waits, and no later
/// request overtakes it.
///
/// A waiting request takes `size` bytes of the budget.
pub(crate) async fn decide_or_wait<S: Store>(
    app: &App<S>,
    charges: &RequestCharges<'_>,
    (queues, budget): (&WaitQueues, &Arc<BufferBudget>),
    size: impl FnOnce() -> usize,
) -> Decision {
    // A policy in shadow mode has no queue, because it never denies.
    let max_wait = |(index, charge): (usize, &Charge<'_>)| {
        let policy = charges.policy(index).filter(|_| charge.rule().enforced);
        policy.and_then(GatewayPolicy::max_wait_of)
    };
    let max_waits: SmallVec<[Option<Span>; 4]> =
        charges.charges().iter().enumerate().map(max_wait).collect();
    if max_waits.iter().all(Option::is_none) {
        return app.decide(charges, ChargeIntent::Take).await;
    }
    let reservation = budget.reserve(size());
    let max_queue = reservation.is_some().then_some(MAX_QUEUE);
    let line = WaitInLine::new(queues, max_queue, &max_waits);
    app.decide(charges, ChargeIntent::Wait(&line)).await
}

/// Requests in one queue.
const MAX_QUEUE: usize = 1_000;

#[cfg(test)]
mod tests {
    use crate::config::SECTIONS;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tidegate::config::PolicySource;
    use tidegate::{Cost, DecisionReason, MemoryStore, Timestamp};
    use tokio::time::Instant;

    use super::*;

    const MEMORY: usize = 10_000_000;

    /// A clock that follows tokio's paused time.
    struct TokioClock(Instant);

    impl tidegate::Clock for TokioClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_secs(1_000_000_020) + Span::from(self.0.elapsed())
        }
    }

    struct QueueFixture {
        app: App<MemoryStore<TokioClock>>,
        queues: WaitQueues,
        budget: Arc<BufferBudget>,
    }

    impl QueueFixture {
        fn new(mode: &str) -> Arc<Self> {
            let text = format!(
                "policies: [{{ name: smooth, key: [ip], limits: [1/second burst 1], mode: {mode}, \
                 on_denied: wait, max_wait: 10s }}]"
            );
            let store = MemoryStore::builder().clock(TokioClock(Instant::now())).build();
            let app = App::load(
                &PolicySource::new("limits.yaml", text).unwrap().with_sections(SECTIONS),
                store,
            )
            .unwrap();
            Arc::new(Self { app, queues: WaitQueues::default(), budget: BufferBudget::new(MEMORY) })
        }

        async fn ask(&self) -> Decision {
            let plan = self.app.limiter().plan();
            let charges = plan.charges(&[("ip", "203.0.113.9")], Cost::ONE);
            decide_or_wait(&self.app, &charges, (&self.queues, &self.budget), || 1_000).await
        }

        /// Adds callers to the queue. Each admitted one increments `served`.
        async fn spawn_callers(self: &Arc<Self>, callers: usize, served: &Arc<AtomicUsize>) {
            for _ in 0..callers {
                let (fixture, served) = (Arc::clone(self), Arc::clone(served));
                tokio::spawn(async move {
                    let is_allowed = fixture.ask().await.is_allowed();
                    served.fetch_add(usize::from(is_allowed), Ordering::SeqCst);
                });
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_never_takes_the_turn_of_the_first_in_line() {
        let (fixture, served) = (QueueFixture::new("enforce"), Arc::default());
        // One is admitted immediately, one is at the head of the queue, and the others wait.
        fixture.spawn_callers(2 + MAX_QUEUE, &served).await;
        for _ in 0..90 {
            // Just after each turn, the quota would have room for the next caller.
            tokio::time::sleep(Duration::from_millis(100)).await;
            fixture.spawn_callers(2, &served).await;
            let denied = fixture.ask().await;
            assert!(!denied.is_allowed());
            assert_eq!(
                (denied.reason(), denied.remaining()),
                (DecisionReason::LimitExceeded, Some(0))
            );
            assert_eq!(denied.retry_span(), Some(Span::from_secs(10)));
        }
        assert!(served.load(Ordering::SeqCst) >= 9);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_gives_up_does_not_take_the_first_turn() {
        let (fixture, served) = (QueueFixture::new("enforce"), Arc::default());
        fixture.spawn_callers(29, &served).await;
        let impatient = tokio::spawn({
            let fixture = Arc::clone(&fixture);
            async move { fixture.ask().await }
        });
        tokio::time::sleep(Duration::from_secs(9)).await;
        // It is behind all the others, which leave after ten seconds.
        let late = tokio::spawn({
            let fixture = Arc::clone(&fixture);
            async move { fixture.ask().await.is_allowed() }
        });
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(late.await.unwrap());
        assert_eq!(served.load(Ordering::SeqCst), 11);
        // It is denied without a decision: a decision would report the time of the next turn.
        let denied = impatient.await.unwrap();
        assert_eq!((denied.is_allowed(), denied.retry_span()), (false, Some(Span::from_secs(10))));
    }

    #[tokio::test(start_paused = true)]
    async fn attack_13_all_lines_together_are_bounded() {
        let (fixture, served) = (QueueFixture::new("enforce"), Arc::default());
        let reserved: Vec<_> =
            (0..MEMORY / 1_000 - 3).map(|_| fixture.budget.reserve(1_000)).collect();
        // One is admitted immediately, and three wait for one second each.
        fixture.spawn_callers(8, &served).await;
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert_eq!((served.load(Ordering::SeqCst), fixture.budget.refusals()), (4, 4));
        drop(reserved);
        assert_eq!(fixture.budget.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shadow_policy_has_no_queue() {
        let (fixture, served) = (QueueFixture::new("shadow"), Arc::default());
        fixture.spawn_callers(2 * MAX_QUEUE, &served).await;
        tokio::task::yield_now().await;
        assert_eq!(served.load(Ordering::SeqCst), 2 * MAX_QUEUE);
    }
}
