//! What a look at a limit, which costs nothing, tells of a cost.

use tidegate_core::{Charge, Limit, Span, Verdict};

use crate::fallback::RETRY_AFTER;

/// What a limit that was looked at would say to the charge.
pub(crate) fn verdict_at_cost(charge: &Charge<'_>, looked: Verdict) -> Verdict {
    let cost = charge.cost().get();
    if !looked.allowed || cost <= looked.remaining {
        return looked;
    }
    let fits_once = cost <= charge.rule().limit.capacity();
    Verdict {
        allowed: false,
        retry_after: fits_once.then(|| wait_for_cost(charge, &looked)),
        ..looked
    }
}

/// How long a charge has to wait for what is missing. A look tells exactly when a window ends and how
/// much a bucket owes, unless another limit with the same counter pays it back. Of that, and of the
/// windows that slide, it tells when all of it is back, which may be later than needed and is never too
/// early.
fn wait_for_cost(charge: &Charge<'_>, looked: &Verdict) -> Span {
    let limit = &charge.rule().limit;
    if looked.limit != limit.capacity() {
        // An instance's share of it, while the store is away: that fills more slowly, or may be
        // less than the cost.
        return looked.reset_after.max(RETRY_AFTER);
    }
    let Limit::TokenBucket(bucket) = limit else { return looked.reset_after };
    let (micros, _) = bucket.refill_time(looked.limit.saturating_sub(charge.cost().get()));
    let rest = Span::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
    if rest < looked.reset_after { looked.reset_after.minus(rest) } else { looked.reset_after }
}
