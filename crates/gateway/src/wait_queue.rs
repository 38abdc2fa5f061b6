//! `on_denied: wait`: the denied wait in line for their turn, and are refused only when that takes
//! too long.

use std::sync::Arc;
use std::time::Duration;

use tidegate::config::PlannedPolicy;
use tidegate::{Charge, Decision, Fingerprint, RequestCharges, Span, Store, WaitQueues};
use tidegate_http::RateLimitAnswer;
use tidegate_server::App;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::buffers::BufferBudget;

/// Decides. Where a policy says so, those who are denied wait; nobody overtakes them.
///
/// Who waits takes memory; `size` says how much.
pub(crate) async fn decide_or_wait<S: Store>(
    app: &App<S>,
    owed: &RequestCharges<'_>,
    (lines, budget): (&WaitQueues, &Arc<BufferBudget>),
    size: impl FnOnce() -> usize,
) -> Decision {
    let Some(wanted) = required_wait(owed) else { return app.decide(owed).await };
    // Whoever does not get a turn is not decided about: it would take the turn of the first in line.
    // After so long, everybody who is in line now has had one, or has left.
    let turn_away = || app.turn_away(owed, wanted.index, wanted.max_wait);
    let Some(_held) = budget.reserve(size()) else { return turn_away() };
    let Ok(place) = lines.join(wanted.key, MAX_QUEUE) else { return turn_away() };
    let give_up_at = Instant::now() + Duration::from(wanted.max_wait);
    let Ok(_turn) = timeout_at(give_up_at, place.turn()).await else { return turn_away() };
    loop {
        let attempt = app.attempt(owed).await;
        match next_try(owed, attempt.decision()).filter(|at| *at <= give_up_at) {
            Some(at) => sleep_until(at).await,
            // However often it was tried, it is one request.
            None => return app.conclude(owed, attempt),
        }
    }
}

/// When those who are denied may try again, if they may wait for it.
fn next_try(owed: &RequestCharges<'_>, decision: &Decision) -> Option<Instant> {
    let wait = decision.retry_after().filter(|_| !decision.is_allowed())?;
    may_wait(owed, decision).then(|| Instant::now().checked_add(wait.into()))?
}

/// A place in line that a request has to have.
struct RequiredWait {
    /// The charge that it waits for.
    index: usize,
    key: Fingerprint,
    max_wait: Span,
}

/// Whose line it is, and how long one waits in it: by the first policy that has one. A policy that only
/// watches lets nobody wait.
fn required_wait(owed: &RequestCharges<'_>) -> Option<RequiredWait> {
    let (charges, numbers) = (owed.charges(), 0..owed.charges().len());
    let is_enforced = |index: &usize| charges.get(*index).is_some_and(|it| it.rule().enforced);
    let waits = |index: usize| owed.policy(index).and_then(PlannedPolicy::max_wait);
    let mut waiting = numbers.filter(is_enforced).filter_map(|it| Some((it, waits(it)?)));
    let (index, first) = waiting.next()?;
    let max_wait = waiting.map(|(_, max_wait)| max_wait).fold(first, Span::min);
    Some(RequiredWait { index, key: charges.get(index).map(Charge::counter)?, max_wait })
}

/// Whether every policy that denies lets people wait.
fn may_wait(owed: &RequestCharges<'_>, decision: &Decision) -> bool {
    let violated = RateLimitAnswer::of_charges(owed, decision).violated();
    let waits = |name: &str| {
        let policies = (0..owed.charges().len()).filter_map(|index| owed.policy(index));
        policies.filter(|it| it.name() == name).any(|it| it.max_wait().is_some())
    };
    violated.into_iter().all(waits)
}

const MAX_QUEUE: usize = 1_000;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tidegate::config::PolicySource;
    use tidegate::{Cost, DecisionReason, MemoryStore, Timestamp};

    use super::*;

    const MEMORY: usize = 10_000_000;

    /// Time as tokio has it, so that a test can let it pass.
    struct TokioClock(Instant);

    impl tidegate::Clock for TokioClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_secs(1_000_000_020) + Span::from(self.0.elapsed())
        }
    }

    struct QueueFixture {
        app: App<MemoryStore<TokioClock>>,
        lines: WaitQueues,
        budget: Arc<BufferBudget>,
    }

    impl QueueFixture {
        fn new(mode: &str) -> Arc<Self> {
            let text = format!(
                "policies: [{{ name: smooth, key: [ip], limits: [1/second burst 1], mode: {mode}, \
                 on_denied: wait, max_wait: 10s }}]"
            );
            let store = MemoryStore::builder().clock(TokioClock(Instant::now())).build();
            let app = App::load(&PolicySource::new("limits.yaml", text).unwrap(), store).unwrap();
            Arc::new(Self { app, lines: WaitQueues::default(), budget: BufferBudget::new(MEMORY) })
        }

        async fn ask(&self) -> Decision {
            let plan = self.app.limiter().plan();
            let owed = plan.charges(&[("ip", "203.0.113.9")], Cost::ONE);
            decide_or_wait(&self.app, &owed, (&self.lines, &self.budget), || 1_000).await
        }

        /// So many more in line. Who has been served is counted.
        async fn spawn_callers(self: &Arc<Self>, callers: usize, served: &Arc<AtomicUsize>) {
            for _ in 0..callers {
                let (door, served) = (Arc::clone(self), Arc::clone(served));
                tokio::spawn(async move {
                    let is_allowed = door.ask().await.is_allowed();
                    served.fetch_add(usize::from(is_allowed), Ordering::SeqCst);
                });
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_never_takes_the_turn_of_the_first_in_line() {
        let (door, served) = (QueueFixture::new("enforce"), Arc::default());
        // One passes at once, one is at the head, and the others wait.
        door.spawn_callers(2 + MAX_QUEUE, &served).await;
        for _ in 0..90 {
            // Just after each turn there would be room for whoever asks first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            door.spawn_callers(2, &served).await;
            let denied = door.ask().await;
            assert!(!denied.is_allowed());
            assert_eq!(
                (denied.reason(), denied.remaining()),
                (DecisionReason::LimitExceeded, Some(0))
            );
            assert_eq!(denied.retry_after(), Some(Span::from_secs(10)));
        }
        assert!(served.load(Ordering::SeqCst) >= 9);
    }

    #[tokio::test(start_paused = true)]
    async fn nor_does_anybody_whose_patience_is_over() {
        let (door, served) = (QueueFixture::new("enforce"), Arc::default());
        door.spawn_callers(29, &served).await;
        let impatient = tokio::spawn({
            let door = Arc::clone(&door);
            async move { door.ask().await }
        });
        tokio::time::sleep(Duration::from_secs(9)).await;
        // Behind all of them, who leave after ten seconds.
        let late = tokio::spawn({
            let door = Arc::clone(&door);
            async move { door.ask().await.is_allowed() }
        });
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(late.await.unwrap());
        assert_eq!(served.load(Ordering::SeqCst), 11);
        // It was not decided about: then it would be told when the next turn is.
        let denied = impatient.await.unwrap();
        assert_eq!((denied.is_allowed(), denied.retry_after()), (false, Some(Span::from_secs(10))));
    }

    #[tokio::test(start_paused = true)]
    async fn attack_13_all_lines_together_are_bounded() {
        let (door, served) = (QueueFixture::new("enforce"), Arc::default());
        let held: Vec<_> = (0..MEMORY / 1_000 - 3).map(|_| door.budget.reserve(1_000)).collect();
        // One passes at once, and three wait for one second each.
        door.spawn_callers(8, &served).await;
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert_eq!((served.load(Ordering::SeqCst), door.budget.refusals()), (4, 4));
        drop(held);
        assert_eq!(door.budget.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_that_only_watches_has_no_line() {
        let (door, served) = (QueueFixture::new("shadow"), Arc::default());
        door.spawn_callers(2 * MAX_QUEUE, &served).await;
        tokio::task::yield_now().await;
        assert_eq!(served.load(Ordering::SeqCst), 2 * MAX_QUEUE);
    }
}
