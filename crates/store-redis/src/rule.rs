//! Limits and costs in the form the scripts expect: whole numbers below 2^53.

use smallvec::SmallVec;
use tidegate_core::algorithm::{FixedWindow, SlidingWindow, TokenBucket};
use tidegate_core::{CalendarPeriod, Cost, Limit, Timestamp};

use crate::message_pack;

/// The numbers of the algorithms in `register.lua`.
const CLOSED: u64 = 0;
const FIXED_WINDOW: u64 = 1;
const SLIDING_WINDOW: u64 = 2;
const SLIDING_LOG: u64 = 3;
const TOKEN_BUCKET: u64 = 4;

/// Whether a script can decide this limit. All others are decided by `core` and stored by
/// `compare_and_set.lua`.
pub(crate) const fn has_twin(limit: &Limit) -> bool {
    matches!(
        limit,
        Limit::FixedWindow(_)
            | Limit::SlidingWindow(_)
            | Limit::SlidingLog(_)
            | Limit::TokenBucket(_)
    )
}

/// Writes a limit's parameters, as listed at the top of the algorithm's script, followed by a cost.
pub(crate) fn write(out: &mut Vec<u8>, limit: &Limit, charged: Cost, now: Timestamp) {
    let quota = limit.quota();
    let (units, window) = (quota.limit(), quota.window().as_micros());
    let (price, price_rest) = cost(limit, charged);
    let [kind, a, b, c, d] = match limit {
        _ if limit.capacity() == 0 => [CLOSED, 0, 0, 0, 0],
        Limit::FixedWindow(by) => {
            let counts_denied = u64::from(by.counts_denied());
            [FIXED_WINDOW, units, window, FixedWindow::scale(quota.window()), counts_denied]
        }
        Limit::SlidingWindow(_) => {
            [SLIDING_WINDOW, units, window, SlidingWindow::scale(quota.window()), 0]
        }
        Limit::SlidingLog(_) => [SLIDING_LOG, units, window, 0, 0],
        Limit::TokenBucket(by) => {
            let (micros, rest) = brim(by);
            [TOKEN_BUCKET, by.pace(), micros, rest, window]
        }
        // Without a twin, nothing is sent to a script.
        _ => [CLOSED, 0, 0, 0, 0],
    };
    let ends = ends(limit, now);
    message_pack::list(out, 7 + ends.len());
    let numbers = [kind, a, b, c, d, price, price_rest].into_iter().chain(ends);
    numbers.for_each(|number| message_pack::number(out, number));
}

/// The ends of the calendar window that contains `now` and of those around it, since Redis's clock
/// may differ. Days are left out: a script can compute when they end.
fn ends(limit: &Limit, now: Timestamp) -> SmallVec<[u64; 4]> {
    let calendar = limit.calendar().filter(|calendar| *calendar != CalendarPeriod::Day);
    let Some(calendar) = calendar else { return SmallVec::new() };
    // Starting a window ago: Redis's clock may be behind, too.
    let first = calendar.end(now.before(calendar.longest()));
    let ends = std::iter::successors(Some(first), |end| Some(calendar.end(*end)));
    ends.take(4).map(Timestamp::as_micros).collect()
}

/// A cost as a script expects it: units, or for a bucket the time that they take to refill, in
/// microseconds and a remainder.
pub(crate) fn cost(limit: &Limit, cost: Cost) -> (u64, u64) {
    match limit {
        Limit::TokenBucket(by) if limit.capacity() > 0 => {
            let most = brim(by).0;
            match by.refill_time(cost.get()) {
                // More than a whole bucket never fits; how much more does not matter.
                (micros, _) if micros > u128::from(most) => (most + 1, 0),
                (micros, rest) => (micros as u64, rest),
            }
        }
        _ => (cost.get(), 0),
    }
}

/// How long an empty bucket takes to fill. The constructor of a limit ensures that this is less
/// than a thousand days.
fn brim(by: &TokenBucket) -> (u64, u64) {
    let (micros, rest) = by.refill_time(Limit::TokenBucket(*by).capacity());
    (u64::try_from(micros).unwrap_or(u64::MAX >> 12), rest)
}

#[cfg(test)]
mod tests {
    use tidegate_core::Span;
    use tidegate_core::algorithm::FixedWindow;

    use super::*;

    #[test]
    fn a_calendar_is_known_around_the_time_of_this_instance() {
        let now = Timestamp::from_secs(1_763_000_000);
        let fixed = |calendar| FixedWindow::by_calendar(5, calendar).unwrap().into();
        assert!(ends(&fixed(CalendarPeriod::Day), now).is_empty());
        for calendar in [CalendarPeriod::Week, CalendarPeriod::Month] {
            let ends = ends(&fixed(calendar), now);
            for days in 0..7 {
                let span = Span::from_days(days);
                for theirs in [now.before(span), now + span] {
                    let end = ends.iter().find(|end| **end > theirs.as_micros());
                    assert_eq!(end, Some(&calendar.end(theirs).as_micros()), "{calendar} {days}");
                }
            }
        }
    }

    #[test]
    fn a_cost_that_never_fits_stays_a_small_number() {
        let limit: Limit = "1/day burst 10".parse().unwrap();
        assert_eq!(cost(&limit, Cost::ONE), (86_400_000_000, 0));
        assert_eq!(cost(&limit, Cost::new(1_000_000_000_000_000).unwrap()), (864_000_000_001, 0));
    }
}
