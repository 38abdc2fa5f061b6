//! Stepped window: a rolling window that moves in steps, with a count for each step.

use super::arithmetic::{div_ceil, narrow, product};
use super::packed::{INSTANT, instant, number, push};
use super::timeline::UnitRun;
use super::{AdmissionBound, Algorithm, judge, refuse_burst};
use crate::{Cost, Quota, QuotaError, Span, Timestamp, Verdict};

/// Divides the window into steps and counts the units of the current step and of as many steps before
/// it as a window has.
///
/// A unit counts as if it had come at the end of its step, so it leaves at most one step too late and
/// never too early: no window ever holds more than the limit, wherever it begins. A key takes one
/// small counter for each step, however large the limit is.
///
/// ```
/// use tidegate::algorithm::{Algorithm, SteppedWindow};
/// use tidegate::{Cost, Span, Timestamp};
///
/// // Ten steps of six seconds.
/// let limit = SteppedWindow::from_quota(&"5/minute".parse()?)?;
/// let mut state = Default::default();
/// let _ = limit.commit(&mut state, Cost::new(5)?, Timestamp::from_secs(59));
/// let verdict = limit.probe(&state, Cost::ONE, Timestamp::from_secs(61));
/// // The log would say 58: the step ends at second 60.
/// assert_eq!(verdict.retry_after, Some(Span::from_secs(59)));
/// assert_eq!(limit.with_steps(60)?.step(), Span::from_secs(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteppedWindow {
    limit: u64,
    window: Span,
    steps: u64,
}

/// The units of each step, with the time at which they leave the window: one window after the end of
/// their step.
///
/// That time does not depend on how many steps a window has, so limits with different numbers of steps
/// can share a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// When the newest units leave.
    until: Timestamp,
    /// The newest units. Kept apart, because most requests only change them.
    newest: u64,
    /// The units of earlier steps, oldest first.
    older: Vec<UnitRun>,
}

impl StepCounts {
    /// All units that leave after `now`, oldest first.
    fn runs_after(&self, now: Timestamp) -> impl Iterator<Item = UnitRun> {
        let newest = UnitRun { at: self.until, units: self.newest };
        self.older.iter().copied().chain([newest]).filter(move |run| run.at > now)
    }

    #[inline]
    fn units_after(&self, now: Timestamp) -> u64 {
        self.runs_after(now).fold(0, |sum, run| sum.saturating_add(run.units))
    }

    /// Adds units that leave at `until`, or with the newest ones if those leave later.
    fn add(&mut self, units: u64, until: Timestamp, now: Timestamp) {
        if until > self.until {
            self.older.retain(|run| run.at > now);
            if self.until > now && self.newest > 0 {
                self.older.push(UnitRun { at: self.until, units: self.newest });
                self.join_oldest();
            }
            (self.until, self.newest) = (until, 0);
        }
        self.newest = self.newest.saturating_add(units);
    }

    /// Bounds the memory where limits with different steps share the counter: joined units leave with
    /// the later ones.
    fn join_oldest(&mut self) {
        if self.older.len() > SteppedWindow::MAX_STEPS as usize {
            let oldest = self.older.remove(0);
            if let Some(next) = self.older.first_mut() {
                next.units = next.units.saturating_add(oldest.units);
            }
        }
    }

    /// Removes the newest units.
    fn remove(&mut self, mut units: u64) {
        while units >= self.newest {
            units -= self.newest;
            let Some(run) = self.older.pop() else {
                *self = Self::default();
                return;
            };
            (self.until, self.newest) = (run.at, run.units);
        }
        self.newest -= units;
    }
}

impl SteppedWindow {
    /// How many steps a window has by default.
    pub const STEPS: u64 = 10;
    /// The fewest steps of a window.
    pub const MIN_STEPS: u64 = 2;
    /// The most steps of a window.
    pub const MAX_STEPS: u64 = 60;

    /// The same limit with another number of steps. More steps release units earlier and take more
    /// memory.
    pub fn with_steps(self, steps: u64) -> Result<Self, QuotaError> {
        let (min, max) = (Self::MIN_STEPS, Self::MAX_STEPS);
        if !(min..=max).contains(&steps) {
            return Err(QuotaError::new(steps, format!("expected {min} to {max} steps")));
        }
        Ok(Self { steps, ..self })
    }

    /// How many steps a window has.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// How long a step takes, rounded up: a unit leaves at most this much too late.
    pub const fn step(&self) -> Span {
        Span::from_micros(self.window.as_micros().div_ceil(self.steps))
    }

    /// When units that are taken now leave: a window after the end of the current step. If the window
    /// cannot be divided into whole microseconds, some steps are longer than others by one, so that
    /// every window has the same steps.
    #[inline]
    fn leaves_at(&self, now: Timestamp) -> Timestamp {
        let start = now.window_start(self.window);
        let (window, elapsed) = (self.window.as_micros(), now.since(start).as_micros());
        let step = elapsed.saturating_mul(self.steps).checked_div(window).unwrap_or(0);
        let end = narrow(div_ceil(product(step + 1, window), self.steps));
        start + Span::from_micros(end) + self.window
    }

    /// The state as of `now`, if it has to be pulled back: units that leave later than two periods from
    /// now can only come from a clock that went back. After a smaller step back the state stays as it
    /// is, since the clock may return.
    #[cold]
    fn pulled_back(&self, state: &StepCounts, now: Timestamp) -> StepCounts {
        let latest = self.leaves_at(now);
        let mut pulled = StepCounts::default();
        for run in state.runs_after(now) {
            pulled.add(run.units, run.at.min(latest), now);
        }
        pulled
    }

    #[inline]
    fn is_far(&self, state: &StepCounts, now: Timestamp) -> bool {
        state.until.since(now) > self.period() + self.period()
    }

    fn pull_back(&self, state: &mut StepCounts, now: Timestamp) {
        if self.is_far(state, now) {
            *state = self.pulled_back(state, now);
        }
    }

    #[inline]
    fn verdict(&self, state: &StepCounts, cost: Cost, now: Timestamp) -> Verdict {
        let count = state.units_after(now);
        let reset_after = if count == 0 { Span::ZERO } else { state.until.since(now) };
        judge(self.limit, self.limit.saturating_sub(count), cost, reset_after, || {
            let mut excess = count.saturating_add(cost.get()).saturating_sub(self.limit);
            let makes_room = state.runs_after(now).find(|run| {
                excess = excess.saturating_sub(run.units);
                excess == 0
            });
            makes_room.map_or(Span::ZERO, |run| run.at.since(now))
        })
    }
}

impl Algorithm for SteppedWindow {
    type State = StepCounts;

    const LETTER: u8 = b'w';
    const SUMMARY: &'static str =
        "a count for each step of a rolling window; never more than L, and little memory";

    fn from_quota(quota: &Quota) -> Result<Self, QuotaError> {
        refuse_burst(quota, "stepped-window")?;
        Ok(Self { limit: quota.limit(), window: quota.window(), steps: Self::STEPS })
    }

    fn quota(&self) -> Quota {
        Quota::trusted(self.limit, self.window, None)
    }

    fn with_quota(&self, quota: &Quota) -> Result<Self, QuotaError> {
        Ok(Self { steps: self.steps, ..Self::from_quota(quota)? })
    }

    fn bound(&self) -> AdmissionBound {
        AdmissionBound { at_once: self.limit, per_window: 0, longest: Some(self.window) }
    }

    fn remark(&self) -> Option<String> {
        Some(format!("moves in steps of {}", self.step()))
    }

    fn period(&self) -> Span {
        self.window + self.step()
    }

    #[inline]
    fn admits(&self, state: &StepCounts, cost: Cost, now: Timestamp) -> bool {
        // Pulling a state back changes when units leave, but not how many there are.
        let count = state.units_after(now);
        self.limit > 0 && cost.get() <= self.limit.saturating_sub(count)
    }

    fn probe(&self, state: &StepCounts, cost: Cost, now: Timestamp) -> Verdict {
        if self.is_far(state, now) {
            return self.verdict(&self.pulled_back(state, now), cost, now);
        }
        self.verdict(state, cost, now)
    }

    #[inline]
    fn commit(&self, state: &mut StepCounts, cost: Cost, now: Timestamp) -> Verdict {
        self.pull_back(state, now);
        state.add(cost.get(), self.leaves_at(now), now);
        self.verdict(state, Cost::PEEK, now)
    }

    fn deny(&self, state: &mut StepCounts, _cost: Cost, now: Timestamp) {
        self.pull_back(state, now);
    }

    /// Refunds the newest units first: they were probably taken just now.
    fn refund(&self, state: &mut StepCounts, amount: Cost, now: Timestamp) {
        self.pull_back(state, now);
        state.remove(amount.get());
    }

    #[inline]
    fn forget_at(state: &StepCounts) -> Timestamp {
        state.until
    }

    /// The width of the counts in bytes, and for each step the time at which its units leave, and how
    /// many they are.
    fn encode(state: &StepCounts, out: &mut Vec<u8>) {
        let runs = state.runs_after(Timestamp::ZERO);
        let most = runs.fold(0, |most, run| most.max(run.units));
        let width = (1..INSTANT).find(|width| most >> (8 * width) == 0).unwrap_or(INSTANT);
        out.push(width as u8);
        for run in state.runs_after(Timestamp::ZERO) {
            push(out, run.at.as_micros(), INSTANT);
            push(out, run.units, width);
        }
    }

    fn decode(&self, raw: &[u8]) -> Option<StepCounts> {
        let (width, runs) = raw.split_first()?;
        let width = usize::from(*width);
        if !(1..=INSTANT).contains(&width) {
            return None;
        }
        let runs = runs.chunks_exact(INSTANT + width);
        if !runs.remainder().is_empty() {
            return None;
        }
        let read = |run: &[u8]| UnitRun {
            at: instant(number(run, 0, INSTANT)),
            units: number(run, INSTANT, width),
        };
        let mut older: Vec<UnitRun> = runs.map(read).collect();
        let is_sorted = older.is_sorted_by(|one, next| one.at < next.at);
        let Some(newest) = older.pop().filter(|_| is_sorted) else {
            return is_sorted.then(StepCounts::default);
        };
        Some(StepCounts { until: newest.at, newest: newest.units, older })
    }

    fn heap_bytes(state: &StepCounts) -> usize {
        state.older.capacity() * size_of::<UnitRun>()
    }

    fn coarsen(&self, state: &mut StepCounts) {
        state.older.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(quota: &str, steps: u64) -> SteppedWindow {
        let limit = SteppedWindow::from_quota(&quota.parse().unwrap()).unwrap();
        limit.with_steps(steps).unwrap()
    }

    fn after(limit: &SteppedWindow, events: &[(u64, u64)]) -> StepCounts {
        let mut state = StepCounts::default();
        for (second, units) in events {
            let now = Timestamp::from_secs(*second);
            let _ = limit.commit(&mut state, Cost::new(*units).unwrap(), now);
        }
        state
    }

    #[test]
    fn units_leave_a_window_after_their_step_ends() {
        let limit = limit("10/minute", 6);
        let state = after(&limit, &[(3, 2), (9, 1), (10, 3), (59, 4)]);
        for (second, remaining) in
            [(59, 0), (69, 0), (70, 3), (79, 3), (80, 6), (119, 6), (120, 10)]
        {
            let verdict = limit.probe(&state, Cost::ONE, Timestamp::from_secs(second));
            assert_eq!(verdict.remaining, remaining, "at {second} s");
        }
        let wait = |cost| {
            let verdict = limit.probe(&state, Cost::new(cost).unwrap(), Timestamp::from_secs(59));
            (verdict.retry_after, verdict.reset_after)
        };
        let seconds = |wait| (Some(Span::from_secs(wait)), Span::from_secs(61));
        assert_eq!([1, 3, 4, 6, 7, 10].map(wait), [11, 11, 21, 21, 61, 61].map(seconds));
    }

    #[test]
    fn a_steady_caller_gets_the_limit_in_every_window_and_one_step() {
        for (steps, percent) in [(10, 91), (60, 98)] {
            let (limit, mut state) = (limit("60/minute", steps), StepCounts::default());
            let mut admitted = 0;
            for now in (0..36_000).map(Timestamp::from_secs) {
                if limit.probe(&state, Cost::ONE, now).allowed {
                    let _ = limit.commit(&mut state, Cost::ONE, now);
                    admitted += 1;
                }
            }
            assert_eq!((admitted + 180) / 360, percent, "{steps} steps");
        }
    }

    #[test]
    fn steps_of_uneven_length_fill_every_window() {
        // A millisecond in 60 steps: most take 17 us, some 16.
        let limit = limit("10/1ms", 60);
        assert_eq!(limit.step(), Span::from_micros(17));
        for start in [0, 1_000, 1_763_000_000_000_000] {
            let mut ends: Vec<u64> = (0..1_000)
                .map(|micros| limit.leaves_at(Timestamp::from_micros(start + micros)).as_micros())
                .collect();
            for (micros, end) in ends.iter().enumerate() {
                let late = end - 1_000 - start - micros as u64;
                assert!((1..=17).contains(&late), "{micros}: {late} us late");
            }
            ends.dedup();
            assert_eq!((ends.len(), ends.last()), (60, Some(&(start + 2_000))));
        }
    }

    #[test]
    fn memory_is_a_count_for_each_step_however_many_requests() {
        let limit = limit("1000000/minute", 10);
        let mut state = StepCounts::default();
        for micros in (0..600_000_000).step_by(9_973) {
            let _ = limit.commit(&mut state, Cost::ONE, Timestamp::from_micros(micros));
            assert!(state.older.len() <= 10, "{}", state.older.len());
        }
        assert!(SteppedWindow::heap_bytes(&state) <= 256);
    }

    #[test]
    fn other_steps_share_the_counter_within_bounds() {
        let mut state = StepCounts::default();
        for (round, steps) in (2..=60).cycle().take(5_000).enumerate() {
            let now = Timestamp::from_micros(1_000_000_000 + round as u64 * 12_345);
            let _ = limit("1000000/minute", steps).commit(&mut state, Cost::ONE, now);
            assert!(state.older.len() <= 60);
        }
        let now = Timestamp::from_micros(1_000_000_000 + 4_999 * 12_345);
        let remaining = limit("1000000/minute", 60).probe(&state, Cost::PEEK, now).remaining;
        // At least those of the last minute, and at most those of one and a half.
        assert!((992_700..=995_140).contains(&remaining), "{remaining}");
    }

    #[test]
    fn bytes_survive_and_others_are_refused() {
        let limit = limit("10/minute", 6);
        for events in [&[][..], &[(3, 2)], &[(3, 2), (9, 1), (10, 300), (59, 70_000)]] {
            let (state, mut bytes) = (after(&limit, events), Vec::new());
            SteppedWindow::encode(&state, &mut bytes);
            assert_eq!(limit.decode(&bytes), Some(state));
            bytes.push(0);
            assert_eq!(limit.decode(&bytes), None);
        }
        let backwards = [&[1][..], &[0, 0, 0, 0, 0, 0, 9, 1], &[0, 0, 0, 0, 0, 0, 8, 1]].concat();
        for raw in [&b""[..], b"\0", b"123", &backwards] {
            assert_eq!(limit.decode(raw), None, "{raw:?}");
        }
    }

    #[test]
    fn the_number_of_steps_is_bounded() {
        let limit = limit("10/minute", 2);
        assert!(limit.with_steps(60).is_ok());
        for steps in [0, 1, 61, u64::MAX] {
            let error = limit.with_steps(steps).unwrap_err().to_string();
            assert!(error.contains("expected 2 to 60 steps"), "{error}");
        }
    }
}
