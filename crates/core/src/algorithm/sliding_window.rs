//! Sliding-window counter: two counters that together follow a rolling window.

use super::arithmetic::{div_ceil, div_rem, narrow, product};
use super::{Algorithm, judge, refuse_burst};
use crate::{Cost, Quota, QuotaError, Span, Timestamp, Verdict};

/// Weights the previous window's count by how much of it the rolling window still covers, and adds
/// the current count. Constant memory, and close to the exact log on ordinary traffic.
///
/// The estimate is never rounded in the caller's favour: `ceil(previous * (W - e) / W)`.
///
/// ```
/// use tidegate::algorithm::{Algorithm, SlidingWindow};
/// use tidegate::{Cost, Timestamp};
///
/// let limit = SlidingWindow::from_quota(&"5/minute".parse()?)?;
/// let mut state = Default::default();
/// let _ = limit.commit(&mut state, Cost::new(5)?, Timestamp::from_secs(59));
/// // Two seconds later a new window has begun, but the last one still weighs 59/60 of five.
/// assert!(!limit.probe(&state, Cost::ONE, Timestamp::from_secs(61)).allowed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// With a small limit this is stricter than the number suggests, because a request weighs on the next
/// window too: requests that come exactly at a rate of `1/minute` are admitted every second time. For limits
/// below about 20, an exact [`SlidingLog`](super::SlidingLog) is cheap, and a
/// [`TokenBucket`](super::TokenBucket) keeps to the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    limit: u64,
    window: Span,
}

/// The counts of two adjacent windows, identified by when the later one stops mattering: two
/// windows after it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowPair {
    until: Timestamp,
    previous: u64,
    current: u64,
}

impl SlidingWindow {
    /// Rebuilds the state from what a store keeps: the counts of two windows, and when the later
    /// one stops mattering (two windows after it began).
    pub const fn state(until: Timestamp, previous: u64, current: u64) -> WindowPair {
        WindowPair { until, previous, current }
    }

    /// The state as of `now`, shifted so that its later window contains `now`.
    #[inline]
    fn current(&self, state: &WindowPair, now: Timestamp) -> WindowPair {
        let left = state.until.since(now);
        if left.is_zero() {
            WindowPair { until: self.until(now), previous: 0, current: 0 }
        } else if left <= self.window {
            WindowPair { until: state.until + self.window, previous: state.current, current: 0 }
        } else if left <= self.period() {
            *state
        } else {
            // The clock went back. It is no longer known when in the windows the requests came, so
            // all of them count in full.
            let total = state.previous.saturating_add(state.current);
            WindowPair { until: self.until(now), previous: 0, current: total }
        }
    }

    /// The state to change: as of `now`, unless the clock went back by so little that it may return.
    /// Then the windows stay where they are: moved windows would weigh less when the clock returns.
    #[inline]
    fn changing(&self, state: &WindowPair, now: Timestamp) -> WindowPair {
        let left = state.until.since(now);
        let is_ahead = left > self.period() && left <= self.period() + self.period();
        if is_ahead { *state } else { self.current(state, now) }
    }

    /// Two windows after the start of the one that contains `now`.
    fn until(&self, now: Timestamp) -> Timestamp {
        now.window_start(self.window) + self.window + self.window
    }

    /// What is left of the current window: `W - e`.
    #[inline]
    fn window_left(&self, pair: &WindowPair, now: Timestamp) -> Span {
        pair.until.since(now).minus(self.window)
    }

    #[inline(always)]
    fn verdict(&self, pair: WindowPair, cost: Cost, now: Timestamp) -> Verdict {
        let left = self.window_left(&pair, now);
        let carried = match pair.previous {
            0 => 0,
            previous => {
                narrow(div_ceil(product(previous, left.as_micros()), self.window.as_micros()))
            }
        };
        let remaining = self.limit.saturating_sub(pair.current).saturating_sub(carried);
        let reset_after = match (pair.previous, pair.current) {
            (0, 0) => Span::ZERO,
            (_, 0) => left,
            _ => left + self.window,
        };
        judge(self.limit, remaining, cost, reset_after, || self.wait(&pair, cost, left))
    }

    /// The first instant at which the decaying counts leave room for `cost`.
    fn wait(&self, pair: &WindowPair, cost: Cost, left: Span) -> Span {
        let room = self.limit.saturating_sub(cost.get());
        match room.checked_sub(pair.current) {
            // It will fit in this window, once the previous one weighs little enough.
            Some(room) => left.minus(self.decays_at(room, pair.previous)),
            // Not before the current window has become the previous one.
            None => left + self.window.minus(self.decays_at(room, pair.current)),
        }
    }

    /// How much of a window is left once the previous window's count has decayed to `room`.
    fn decays_at(&self, room: u64, count: u64) -> Span {
        if room == 0 {
            return Span::ZERO;
        }
        let (left, _) = div_rem(product(room, self.window.as_micros()), count);
        Span::from_micros(narrow(left)).min(self.window)
    }
}

impl Algorithm for SlidingWindow {
    type State = WindowPair;

    fn from_quota(quota: &Quota) -> Result<Self, QuotaError> {
        refuse_burst(quota, "sliding-window")?;
        Ok(Self { limit: quota.limit(), window: quota.window() })
    }

    fn quota(&self) -> Quota {
        Quota::trusted(self.limit, self.window, None)
    }

    fn period(&self) -> Span {
        self.window + self.window
    }

    #[inline]
    fn admits(&self, state: &WindowPair, cost: Cost, now: Timestamp) -> bool {
        let pair = self.current(state, now);
        let used = pair.current.saturating_add(cost.get());
        let fits = self.limit.checked_sub(used).is_some_and(|room| {
            let left = self.window_left(&pair, now).as_micros();
            product(pair.previous, left) <= product(room, self.window.as_micros())
        });
        // A peek always fits, even if too much is counted because the clock went back.
        self.limit > 0 && (fits || cost.is_peek())
    }

    #[inline]
    fn probe(&self, state: &WindowPair, cost: Cost, now: Timestamp) -> Verdict {
        self.verdict(self.current(state, now), cost, now)
    }

    #[inline(always)]
    fn commit(&self, state: &mut WindowPair, cost: Cost, now: Timestamp) -> Verdict {
        let pair = self.changing(state, now);
        *state = WindowPair { current: pair.current.saturating_add(cost.get()), ..pair };
        self.verdict(self.current(state, now), Cost::PEEK, now)
    }

    #[inline]
    fn deny(&self, state: &mut WindowPair, _cost: Cost, now: Timestamp) {
        if state.until.since(now) > self.period() {
            *state = self.changing(state, now);
        }
    }

    /// Refunds the current window first: the units were probably taken just now.
    fn refund(&self, state: &mut WindowPair, amount: Cost, now: Timestamp) {
        let pair = self.changing(state, now);
        let from_previous = amount.get().saturating_sub(pair.current);
        *state = WindowPair {
            until: pair.until,
            previous: pair.previous.saturating_sub(from_previous),
            current: pair.current.saturating_sub(amount.get()),
        };
    }

    #[inline]
    fn forget_at(state: &WindowPair) -> Timestamp {
        state.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn at(state: &WindowPair, cost: u64, micros: u64) -> Verdict {
        let limit = SlidingWindow::from_quota(&"10/minute".parse().unwrap()).unwrap();
        limit.probe(state, Cost::new(cost).unwrap(), Timestamp::from_micros(micros))
    }

    #[test]
    fn the_previous_window_decays_linearly() {
        // 6 in the first minute, 3 so far in the second: the state of a 10/minute key.
        let state = WindowPair { until: Timestamp::from_secs(180), previous: 6, current: 3 };
        for (second, remaining) in [(60, 1), (70, 2), (90, 4), (119, 6), (120, 7), (179, 9)] {
            assert_eq!(at(&state, 1, second * SECOND).remaining, remaining, "at {second} s");
        }
        assert_eq!(at(&state, 1, 180 * SECOND).remaining, 10);
    }

    #[test]
    fn waiting_crosses_windows_when_it_must() {
        let state = WindowPair { until: Timestamp::from_secs(180), previous: 6, current: 9 };
        let wait = at(&state, 2, 60 * SECOND).retry_after.unwrap().as_micros();
        assert!(wait > 60 * SECOND);
        assert!(!at(&state, 2, 60 * SECOND + wait - 1).allowed);
        assert!(at(&state, 2, 60 * SECOND + wait).allowed);
    }
}
