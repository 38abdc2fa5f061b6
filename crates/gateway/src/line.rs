//! `on_denied: wait`: the denied wait in line for their turn, and are refused only when that takes
//! too long.

use std::time::Duration;

use tidegate::config::PlannedPolicy;
use tidegate::{Charge, Decision, Fingerprint, Lines, Owed, Store};
use tidegate_http::Answer;
use tidegate_server::App;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Decides. Where a policy says so, those who are denied wait; nobody overtakes them.
pub(crate) async fn settle<S: Store>(app: &App<S>, owed: &Owed<'_>, lines: &Lines) -> Decision {
    let Some((key, max_wait)) = waiting(owed) else { return app.settle(owed).await };
    // A line that is full, or too long, is as good as none.
    let Ok(place) = lines.join(key, MAX_QUEUE) else { return app.settle(owed).await };
    let give_up_at = Instant::now() + max_wait;
    let Ok(_turn) = timeout_at(give_up_at, place.turn()).await else {
        return app.settle(owed).await;
    };
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
fn next_try(owed: &Owed<'_>, decision: &Decision) -> Option<Instant> {
    let wait = decision.retry_after().filter(|_| !decision.is_allowed())?;
    may_wait(owed, decision).then(|| Instant::now().checked_add(wait.into()))?
}

/// Whose line it is, and how long one waits in it: by the first policy that has one.
fn waiting(owed: &Owed<'_>) -> Option<(Fingerprint, Duration)> {
    let waits = |index: usize| owed.policy(index).and_then(PlannedPolicy::max_wait);
    let (index, _) = owed.charges().iter().enumerate().find(|(it, _)| waits(*it).is_some())?;
    let shortest = (0..owed.charges().len()).filter_map(waits).min()?;
    Some((owed.charges().get(index).map(Charge::counter)?, shortest.into()))
}

/// Whether every policy that denies lets people wait.
fn may_wait(owed: &Owed<'_>, decision: &Decision) -> bool {
    let violated = Answer::of_owed(owed, decision).violated();
    let waits = |name: &str| {
        let policies = (0..owed.charges().len()).filter_map(|index| owed.policy(index));
        policies.filter(|it| it.name() == name).any(|it| it.max_wait().is_some())
    };
    violated.into_iter().all(waits)
}

const MAX_QUEUE: usize = 1_000;
