//! Sliding-window counter: two counters that together follow a rolling window.

use super::arithmetic::{div_ceil, div_rem, narrow, product};
use super::packed::{instant, push_three, three, whole};
use super::{AdmissionBound, Algorithm, judge, refuse_burst};
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
    /// The factor for the index of a window, and for its earlier count, where a store keeps them and
    /// the later count as one number; see [`FixedWindow::scale`](super::FixedWindow::scale).
    pub fn scale(window: Span) -> u64 {
        1 << window.as_micros().max(1).ilog2().min(50).div_ceil(2)
    }

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

    const LETTER: u8 = b's';
    const SUMMARY: &'static str =
        "two counts that follow a rolling window; about L on ordinary traffic";
    const ESTIMATES: bool = true;

    fn from_quota(quota: &Quota) -> Result<Self, QuotaError> {
        refuse_burst(quota, "sliding-window")?;
        Ok(Self { limit: quota.limit(), window: quota.window() })
    }

    fn quota(&self) -> Quota {
        Quota::trusted(self.limit, self.window, None)
    }

    fn bound(&self) -> AdmissionBound {
        let longest = Some(self.window);
        AdmissionBound { at_once: self.limit, per_window: self.limit, longest }
    }

    fn most_in_a_window(&self) -> u64 {
        self.limit.saturating_mul(2).saturating_sub(1)
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

    fn encode(state: &WindowPair, out: &mut Vec<u8>) {
        push_three(out, state.until, state.previous, state.current);
    }

    fn decode(&self, raw: &[u8]) -> Option<WindowPair> {
        if let Some(number) = whole(raw) {
            return self.decode_number(number);
        }
        let (until, previous, current) = three(raw)?;
        Some(WindowPair { until, previous, current })
    }

    /// The index of the instant, scaled twice, and the two counts.
    fn decode_number(&self, number: u64) -> Option<WindowPair> {
        let scale = Self::scale(self.window);
        let until = instant((number / scale / scale).checked_mul(self.window.as_micros())?);
        Some(WindowPair { until, previous: number / scale % scale, current: number % scale })
    }

    /// It is full again up to two windows from now, but it moves along, so that the remaining units
    /// are for one window. The end of its current part would be too early: the count of that part
    /// still weighs afterwards.
    fn effective_window(&self, verdict: &Verdict) -> Span {
        verdict.reset_after.min(self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn two_counts_fit_where_one_fits() {
        for window in [1, 1_000, 1_000_000, 60_000_000, 86_400_000_000, 400 * 86_400_000_000] {
            let window = Span::from_micros(window);
            assert!(
                SlidingWindow::scale(window).pow(2) <= super::super::FixedWindow::scale(window)
            );
        }
        assert_eq!(SlidingWindow::scale(Span::from_secs(60)), 1 << 13);
    }

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
