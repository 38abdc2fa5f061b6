//! Derives the verdict for a cost from a peek at the limit, which takes nothing.

use tidegate_core::{Charge, Span, Verdict};

use crate::fallback::RETRY_AFTER;

/// The verdict that a limit would give the charge, by the verdict of a peek.
pub(crate) fn verdict_at_cost(charge: &Charge<'_>, peeked: Verdict) -> Verdict {
    let cost = charge.cost().get();
    if !peeked.allowed || cost <= peeked.remaining {
        return peeked;
    }
    let fits_once = cost <= charge.rule().limit.capacity();
    Verdict {
        allowed: false,
        retry_after: fits_once.then(|| wait_for_cost(charge, &peeked)),
        ..peeked
    }
}

/// How long a charge has to wait for the missing units. The result is exact for a fixed window and for
/// a bucket whose counter has no other limit. For a shared counter and for sliding windows, a peek only
/// shows when the whole quota is back: that can be later than necessary, but never too early.
fn wait_for_cost(charge: &Charge<'_>, peeked: &Verdict) -> Span {
    let limit = &charge.rule().limit;
    if peeked.limit != limit.capacity() {
        // This is an instance's share of the limit, while the store is unavailable. It refills more
        // slowly, and can be smaller than the cost.
        return peeked.reset_after.max(RETRY_AFTER);
    }
    limit.wait_after_peek(peeked, charge.cost())
}
