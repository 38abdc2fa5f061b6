//! `on_denied: wait`: denied requests wait in a queue for their turn, and are denied only if that takes
//! too long.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Charge, Decision, Fingerprint, RequestCharges, Span, Store, WaitQueues};
use tidegate_http::RateLimitAnswer;
use tidegate_server::App;
use tokio::time::{Instant, sleep_until, timeout_at};

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
    let Some(wait) = required_wait(charges) else { return app.decide(charges).await };
    // A request without a turn is denied without a decision, which could take the turn of the first in
    // the queue. After `max_wait`, every request that is in the queue now has had its turn or has left.
    let turn_away = || app.turn_away(charges, wait.index, wait.max_wait);
    let Some(_reservation) = budget.reserve(size()) else { return turn_away() };
    let Ok(place) = queues.join(wait.key, MAX_QUEUE) else { return turn_away() };
    let give_up_at = Instant::now() + Duration::from(wait.max_wait);
    let Ok(_turn) = timeout_at(give_up_at, place.turn()).await else { return turn_away() };
    loop {
        let attempt = app.attempt(charges).await;
        match next_try(charges, attempt.decision()).filter(|at| *at <= give_up_at) {
            Some(at) => sleep_until(at).await,
            // It counts as one request, however many attempts it took.
            None => return app.conclude(charges, attempt),
        }
    }
}

/// When a denied request can try again, if its policies let it wait.
fn next_try(charges: &RequestCharges<'_>, decision: &Decision) -> Option<Instant> {
    let wait = decision.retry_span().filter(|_| !decision.is_allowed())?;
    may_wait(charges, decision).then(|| Instant::now().checked_add(wait.into()))?
}

/// The queue that a request has to join before it is decided about.
struct RequiredWait {
    /// The charge that the request waits for.
    index: usize,
    key: Fingerprint,
    max_wait: Span,
}

/// The queue belongs to the first policy with `on_denied: wait`; the shortest `max_wait` counts. A policy
/// in shadow mode has no queue, because it never denies.
fn required_wait(charges: &RequestCharges<'_>) -> Option<RequiredWait> {
    let (list, numbers) = (charges.charges(), 0..charges.charges().len());
    let is_enforced = |index: &usize| list.get(*index).is_some_and(|it| it.rule().enforced);
    let waits = |index: usize| charges.policy(index).and_then(GatewayPolicy::max_wait_of);
    let mut waiting = numbers.filter(is_enforced).filter_map(|it| Some((it, waits(it)?)));
    let (index, first) = waiting.next()?;
    let max_wait = waiting.map(|(_, max_wait)| max_wait).fold(first, Span::min);
    Some(RequiredWait { index, key: list.get(index).map(Charge::counter)?, max_wait })
}

/// Whether every policy that denies the request has `on_denied: wait`.
fn may_wait(charges: &RequestCharges<'_>, decision: &Decision) -> bool {
    let violated = RateLimitAnswer::of_charges(charges, decision).violated();
    let waits = |name: &str| {
        let policies = (0..charges.charges().len()).filter_map(|index| charges.policy(index));
        policies.filter(|it| it.name() == name).any(|it| GatewayPolicy::max_wait_of(it).is_some())
    };
    violated.into_iter().all(waits)
}

/// Requests in one queue.
const MAX_QUEUE: usize = 1_000;

#[cfg(test)]
mod tests {
    use crate::config::SECTIONS;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tidegate::config::PolicySource;
    use tidegate::{Cost, DecisionReason, MemoryStore, Timestamp};

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
