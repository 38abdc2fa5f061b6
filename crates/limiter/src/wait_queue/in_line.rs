//! How the requests of a plan wait in line.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Fingerprint, Span};
use tidegate_policy::RequestCharges;

use super::{WaitLimits, WaitQueues};
use crate::Decision;

/// The queues in which a request may wait until it is admitted, and for how long:
/// [`ChargeIntent::Wait`](crate::ChargeIntent::Wait).
///
/// A request waits in the queue of the first enforced limit whose policy lets it wait, and no later
/// request overtakes it. It waits only if every policy that denies it lets it wait, and no longer than the
/// shortest of their times.
#[derive(Debug)]
pub struct WaitInLine<'a> {
    queues: &'a WaitQueues,
    max_queue: Option<usize>,
    max_waits: &'a [Option<Span>],
    /// How long the last decision took.
    decision_nanos: AtomicU64,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitTarget {
    /// The index of the charge.
    pub(crate) index: usize,
    pub(crate) counter: Fingerprint,
    pub(crate) max_wait: Span,
}

impl<'a> WaitInLine<'a> {
    /// A request may wait in these queues, if fewer than `max_queue` wait in its own. Without a `max_queue`
    /// there is no room for it in any: it is denied without a look at the store, as if its queue were full.
    /// `max_waits` has, for each charge, how long its policy lets a denied request wait, if it does.
    pub const fn new(
        queues: &'a WaitQueues,
        max_queue: Option<usize>,
        max_waits: &'a [Option<Span>],
    ) -> Self {
        Self { queues, max_queue, max_waits, decision_nanos: AtomicU64::new(0) }
    }

    /// How long the last decision took, without the waiting before it.
    pub(crate) fn decision_nanos(&self) -> u64 {
        self.decision_nanos.load(Ordering::Relaxed)
    }

    pub(crate) fn set_decision_nanos(&self, nanos: u64) {
        self.decision_nanos.store(nanos, Ordering::Relaxed);
    }

    /// What the request waits for, if it may wait. A shadow limit has no queue, because it never denies.
    pub(crate) fn target(&self, request: &RequestCharges<'_>) -> Option<WaitTarget> {
        let charges = request.charges().iter().zip(self.max_waits).enumerate();
        let mut waiting = charges
            .filter(|(_, (charge, _))| charge.rule().enforced)
            .filter_map(|(index, (charge, max_wait))| Some((index, charge, (*max_wait)?)));
        let (index, charge, first) = waiting.next()?;
        let max_wait = waiting.map(|(.., max_wait)| max_wait).fold(first, Span::min);
        Some(WaitTarget { index, counter: charge.counter(), max_wait })
    }

    pub(crate) const fn queues(&self) -> &'a WaitQueues {
        self.queues
    }

    /// The bounds of a request's wait, if there is room for it.
    pub(crate) fn limits(&self, target: &WaitTarget) -> Option<WaitLimits> {
        Some(WaitLimits { max_wait: target.max_wait.into(), max_queue: self.max_queue? })
    }

    /// Whether every policy that denies the request lets it wait.
    pub(crate) fn may_wait(&self, request: &RequestCharges<'_>, decision: &Decision) -> bool {
        let indices = || 0..request.charges().len();
        let is_known = indices().any(|index| decision.is_denied_by(index));
        let mut denying = indices().filter(|index| !is_known || decision.is_denied_by(*index));
        denying.all(|index| self.max_waits.get(index).is_some_and(Option::is_some))
    }
}
