//! What a caller wants with the charges of a request.

use tidegate_core::Cost;
use tidegate_policy::RequestCharges;
use tidegate_store::{Stopwatch, Store};

use super::PlanLimiter;
use crate::decider::denial_without_store;
use crate::wait_queue::WaitInLine;
use crate::{Decision, DecisionSource};

/// What to do with the charges of a request.
#[derive(Clone, Copy, Debug)]
pub enum ChargeIntent<'a> {
    /// Take the whole cost, or nothing.
    Take,
    /// Take nothing, at any cost. The request is denied if the smallest cost would be denied, with a wait
    /// until the quota is full again.
    Peek,
    /// Take the whole cost or, if that is denied, as much of it as is left. For something that has already
    /// happened: the decision tells that it was too much, and the next one is denied.
    ///
    /// What is left is what all enforced limits have left. A shadow limit without room for that takes
    /// nothing, as always.
    TakeUpTo,
    /// Deny as [`Take`](Self::Take) does, and take nothing from a request that passes. For a part of a
    /// request's charges that can deny it before all of them are known.
    DenyOnly,
    /// Take the whole cost as soon as it is this caller's turn, instead of being denied.
    Wait(&'a WaitInLine<'a>),
}

impl ChargeIntent<'_> {
    /// How long a decision took that was begun with this stopwatch: without the time in which a request
    /// waited in line.
    pub fn decision_nanos(&self, watch: Stopwatch) -> u64 {
        match self {
            Self::Wait(line) => line.decision_nanos(),
            _ => watch.nanos(),
        }
    }

    /// Whether a decision with this intent is the decision about a request. Otherwise the request is yet
    /// to be decided.
    pub const fn is_final(&self, decision: &Decision) -> bool {
        !matches!(self, Self::DenyOnly) || !decision.is_allowed()
    }
}

impl<S: Store> PlanLimiter<S> {
    /// Decides with an intent for which it may have to decide more than once.
    pub(super) async fn decide_by(
        &self,
        request: &RequestCharges<'_>,
        intent: ChargeIntent<'_>,
    ) -> Decision {
        match intent {
            ChargeIntent::Take => self.take(request).await,
            ChargeIntent::Peek => {
                let peeks = request.clone().with_cost(Cost::PEEK);
                self.take(&peeks).await.denied_if_used_up()
            }
            ChargeIntent::TakeUpTo => {
                let decision = self.take(request).await;
                if let Some(left) = decision.largest_part() {
                    let _ = self.take(&request.clone().with_cost(left)).await;
                }
                decision
            }
            ChargeIntent::DenyOnly => {
                let decision = self.take(request).await;
                if decision.is_allowed() {
                    // If the store does not answer, the units stay taken: too strict, but never too lenient.
                    let _ = self.undo(request, &decision).await;
                }
                decision
            }
            ChargeIntent::Wait(line) => self.decide_in_turn(request, line).await,
        }
    }

    async fn decide_in_turn(
        &self,
        request: &RequestCharges<'_>,
        line: &WaitInLine<'_>,
    ) -> Decision {
        let Some(target) = line.target(request) else { return self.take(request).await };
        // Without a turn, the request is denied without a decision, which could take the units that the
        // first in the queue waits for. After `max_wait`, every request that is in the queue now has had
        // its turn or has left.
        let turn_away = || {
            let denial = denial_without_store(request.charges(), DecisionSource::None);
            denial.turned_away(target.index, target.max_wait)
        };
        let Some(limits) = line.limits(&target) else { return turn_away() };
        let wait_for = |decision: &Decision| {
            let wait = decision.retry_after().filter(|_| !decision.is_allowed())?;
            line.may_wait(request, decision).then_some(wait)
        };
        let take = || async {
            let watch = Stopwatch::start();
            let decision = self.take(request).await;
            line.set_decision_nanos(watch.nanos());
            decision
        };
        let decided = line.queues().in_turn(target.counter, limits, take, wait_for).await;
        decided.unwrap_or_else(|_| turn_away())
    }
}
