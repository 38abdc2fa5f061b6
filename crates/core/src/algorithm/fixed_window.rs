//! Fixed window: one counter for each epoch-aligned window.

use super::packed::{INSTANT, instant, number, push, whole};
use super::{AdmissionBound, Algorithm, judge, refuse_burst};
use crate::{CalendarPeriod, Cost, MAX_COUNT, Quota, QuotaError, Span, Timestamp, Verdict};

/// Counts requests in windows aligned to the epoch, starting from zero in each.
///
/// The cheapest algorithm, and the one whose flaw is best known: a full quota at the end of one
/// window and another at the start of the next let through twice the limit within moments.
///
/// ```
/// use tidegate::algorithm::{Algorithm, FixedWindow};
/// use tidegate::{Cost, Timestamp};
///
/// let limit = FixedWindow::from_quota(&"5/minute".parse()?)?;
/// let mut state = Default::default();
/// for second in [59, 61] {
///     let now = Timestamp::from_secs(second);
///     assert!(limit.probe(&state, Cost::new(5)?, now).allowed);
///     assert_eq!(limit.commit(&mut state, Cost::new(5)?, now).remaining, 0);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    limit: u64,
    /// For a calendar window, the longest it can be.
    window: Span,
    counts_denied: bool,
    calendar: Option<CalendarPeriod>,
}

/// The count of one window, identified by the window's end. It is forgotten at that point.
///
/// The default is a key that was never seen: a window that has ended, with nothing in it. A count whose
/// window is over means nothing, whatever its number, so a store may drop it at any time after the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCount {
    end: Timestamp,
    count: u64,
}

impl FixedWindow {
    /// Counts by the calendar, in UTC: `limit` per day, week or month.
    ///
    /// ```
    /// use tidegate::algorithm::{Algorithm, FixedWindow};
    /// use tidegate::{CalendarPeriod, Cost, Span, Timestamp};
    ///
    /// let limit = FixedWindow::by_calendar(1_000, CalendarPeriod::Month)?;
    /// let february = Timestamp::from_secs(1_706_745_600); // 2024-02-01
    /// let verdict = limit.probe(&Default::default(), Cost::ONE, february);
    /// assert_eq!(verdict.reset_after, Span::from_days(29));
    /// # Ok::<(), tidegate::QuotaError>(())
    /// ```
    pub fn by_calendar(limit: u64, calendar: CalendarPeriod) -> Result<Self, QuotaError> {
        let quota = Quota::new(limit, calendar.longest())?;
        Ok(Self { calendar: Some(calendar), ..Self::from_quota(&quota)? })
    }

    /// The calendar it follows, if any.
    pub const fn calendar(&self) -> Option<CalendarPeriod> {
        self.calendar
    }

    /// Counts denied requests as well, which no other algorithm here does. A caller that keeps
    /// hammering stays locked out for the rest of the window, even for small costs. A cost that
    /// could never pass does not count.
    ///
    /// ```
    /// use tidegate::algorithm::{Algorithm, FixedWindow};
    /// use tidegate::{Cost, Timestamp};
    ///
    /// let limit = FixedWindow::from_quota(&"5/minute".parse()?)?.counting_denied();
    /// let (mut state, now) = (Default::default(), Timestamp::from_secs(1));
    /// let _ = limit.commit(&mut state, Cost::new(4)?, now);
    /// // Two do not fit. The attempt counts, so that one does not fit any more either.
    /// limit.deny(&mut state, Cost::new(2)?, now);
    /// assert!(!limit.probe(&state, Cost::ONE, now).allowed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn counting_denied(self) -> Self {
        Self { counts_denied: true, ..self }
    }

    /// The factor for the index of a window of this length, where a store keeps the index and the
    /// count as one number: together they stay below 2^53 for another hundred years. Depends only on
    /// the window, which never changes for a counter.
    pub fn scale(window: Span) -> u64 {
        2 << window.as_micros().max(1).ilog2().min(50)
    }

    /// Rebuilds the state from what a store keeps: a window's end and its count.
    ///
    /// Any pair of values is a valid state: one from the future, after a clock went back, is pulled to the
    /// present by the next denial.
    pub const fn state(end: Timestamp, count: u64) -> WindowCount {
        WindowCount { end, count }
    }

    /// Whether denied requests count.
    pub const fn counts_denied(&self) -> bool {
        self.counts_denied
    }

    /// The state as of `now`, for the window that contains `now`.
    #[inline]
    fn current(&self, state: &WindowCount, now: Timestamp) -> WindowCount {
        if now >= state.end {
            WindowCount { end: self.end(now), count: 0 }
        } else if now + self.window >= state.end {
            *state
        } else {
            // The clock went back to before the window began: the count comes along and stays for a
            // whole window. If it stayed only until the next edge, a clock jittering around that
            // edge would reset it.
            WindowCount { end: now + self.window, count: state.count }
        }
    }

    /// When the window that contains `now` ends.
    #[inline]
    fn end(&self, now: Timestamp) -> Timestamp {
        match self.calendar {
            None => now.window_start(self.window) + self.window,
            Some(calendar) => calendar.end(now),
        }
    }

    #[inline]
    fn verdict(&self, current: WindowCount, cost: Cost, now: Timestamp) -> Verdict {
        let remaining = self.limit.saturating_sub(current.count);
        let until_end = current.end.since(now);
        judge(self.limit, remaining, cost, until_end, || until_end)
    }

    fn count(current: WindowCount, cost: Cost) -> WindowCount {
        // Counted denials could climb forever; past this value nothing passes anyway.
        let count = current.count.saturating_add(cost.get()).min(2 * MAX_COUNT);
        WindowCount { count, ..current }
    }
}

impl Algorithm for FixedWindow {
    type State = WindowCount;

    const LETTER: u8 = b'f';
    const SUMMARY: &'static str = "one count for each window; up to 2 L around a window's edge";
    const KNOWS_OTHER_COSTS: bool = true;

    fn from_quota(quota: &Quota) -> Result<Self, QuotaError> {
        refuse_burst(quota, "fixed-window")?;
        let (limit, window) = (quota.limit(), quota.window());
        Ok(Self { limit, window, counts_denied: false, calendar: None })
    }

    fn quota(&self) -> Quota {
        Quota::trusted(self.limit, self.window, None)
    }

    fn with_quota(&self, quota: &Quota) -> Result<Self, QuotaError> {
        let other = match self.calendar {
            Some(calendar) => Self::by_calendar(quota.limit(), calendar)?,
            None => Self::from_quota(quota)?,
        };
        Ok(Self { counts_denied: self.counts_denied, ..other })
    }

    fn calendar(&self) -> Option<CalendarPeriod> {
        self.calendar
    }

    fn bound(&self) -> AdmissionBound {
        let at_once = self.limit.saturating_mul(2);
        AdmissionBound { at_once, per_window: 0, longest: Some(self.window) }
    }

    fn most_in_a_window(&self) -> u64 {
        self.limit.saturating_mul(2)
    }

    fn remark(&self) -> Option<String> {
        self.counts_denied.then(|| "denied requests count too".to_owned())
    }

    fn period(&self) -> Span {
        self.window
    }

    fn counts_denied(&self) -> bool {
        self.counts_denied
    }

    #[inline]
    fn admits(&self, state: &WindowCount, cost: Cost, now: Timestamp) -> bool {
        let count = self.current(state, now).count;
        self.limit > 0 && cost.get() <= self.limit.saturating_sub(count)
    }

    #[inline]
    fn probe(&self, state: &WindowCount, cost: Cost, now: Timestamp) -> Verdict {
        self.verdict(self.current(state, now), cost, now)
    }

    #[inline]
    fn commit(&self, state: &mut WindowCount, cost: Cost, now: Timestamp) -> Verdict {
        *state = Self::count(self.current(state, now), cost);
        self.verdict(*state, Cost::PEEK, now)
    }

    #[inline]
    fn deny(&self, state: &mut WindowCount, cost: Cost, now: Timestamp) {
        if self.counts_denied && cost.get() <= self.limit {
            *state = Self::count(self.current(state, now), cost);
        } else if now + self.window < state.end {
            *state = self.current(state, now);
        }
    }

    fn refund(&self, state: &mut WindowCount, amount: Cost, now: Timestamp) {
        let current = self.current(state, now);
        *state = WindowCount { count: current.count.saturating_sub(amount.get()), ..current };
    }

    #[inline]
    fn forget_at(state: &WindowCount) -> Timestamp {
        state.end
    }

    fn encode(state: &WindowCount, out: &mut Vec<u8>) {
        out.push(MARK);
        push(out, state.end.as_micros(), INSTANT);
        push(out, state.count, INSTANT);
    }

    fn decode(&self, raw: &[u8]) -> Option<WindowCount> {
        match raw {
            [MARK, rest @ ..] if rest.len() == 2 * INSTANT => {
                let end = instant(number(rest, 0, INSTANT));
                Some(WindowCount { end, count: number(rest, INSTANT, INSTANT) })
            }
            _ => self.decode_number(whole(raw)?),
        }
    }

    /// The window's index, scaled, and its count.
    fn decode_number(&self, number: u64) -> Option<WindowCount> {
        let scale = Self::scale(self.window);
        let end = (number / scale).checked_mul(self.window.as_micros())?;
        Some(WindowCount { end: instant(end), count: number % scale })
    }

    /// The window ends at the same time for every cost.
    fn at_another_cost(&self, verdict: Verdict, _before: Cost, cost: Cost) -> Option<Verdict> {
        let allowed = cost.get() <= verdict.remaining;
        let fits_later = !allowed && cost.get() <= verdict.limit;
        let retry_after = fits_later.then_some(verdict.reset_after);
        Some(Verdict { allowed, retry_after, ..verdict })
    }
}

/// The first byte of a state that does not fit into one number.
const MARK: u8 = b'w';

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_and_its_count_fit_into_one_number() {
        let end_of_time = 1_u64 << 52;
        for window in [1, 1_000, 1_000_000, 60_000_000, 86_400_000_000, 400 * 86_400_000_000] {
            let scale = FixedWindow::scale(Span::from_micros(window));
            let index = end_of_time / window;
            assert!(index.checked_mul(scale).is_some_and(|most| most <= 1 << 53));
        }
        assert_eq!(FixedWindow::scale(Span::from_secs(60)), 1 << 26);
    }

    fn limit() -> FixedWindow {
        FixedWindow::from_quota(&"5/minute".parse().unwrap()).unwrap()
    }

    #[test]
    fn a_big_denied_request_does_not_poison_the_window_unless_asked_to() {
        let now = Timestamp::from_secs(30);
        for (limit, remaining) in [(limit(), 4), (limit().counting_denied(), 0)] {
            let mut state = WindowCount::default();
            let _ = limit.commit(&mut state, Cost::ONE, now);
            let five = Cost::new(5).unwrap();
            assert!(!limit.probe(&state, five, now).allowed);
            limit.deny(&mut state, five, now);
            assert_eq!(limit.probe(&state, Cost::ONE, now).remaining, remaining);
        }
    }

    #[test]
    fn a_cost_that_could_never_pass_is_not_counted_even_when_asked_to() {
        let (limit, mut state) = (limit().counting_denied(), WindowCount::default());
        limit.deny(&mut state, Cost::new(6).unwrap(), Timestamp::from_secs(30));
        assert_eq!(state, WindowCount::default());
    }

    #[test]
    fn a_clock_that_goes_back_takes_the_count_along() {
        let (limit, mut state) = (limit(), WindowCount::default());
        let _ = limit.commit(&mut state, Cost::new(5).unwrap(), Timestamp::from_secs(7_200));
        let earlier = Timestamp::from_secs(30);
        let verdict = limit.probe(&state, Cost::ONE, earlier);
        assert_eq!(verdict.retry_after, Some(Span::from_secs(60)));
        limit.deny(&mut state, Cost::ONE, earlier);
        assert!(!limit.probe(&state, Cost::ONE, Timestamp::from_secs(89)).allowed);
        assert!(limit.probe(&state, Cost::ONE, Timestamp::from_secs(90)).allowed);
    }

    #[test]
    fn a_calendar_month_ends_with_the_month_however_long() {
        let limit = FixedWindow::by_calendar(2, CalendarPeriod::Month).unwrap();
        let mut state = WindowCount::default();
        let [february, march, april] =
            [1_706_745_600, 1_709_251_200, 1_711_929_600].map(Timestamp::from_secs);
        let _ = limit.commit(&mut state, Cost::new(2).unwrap(), february);
        let verdict = limit.probe(&state, Cost::ONE, february);
        assert_eq!(verdict.retry_after, Some(Span::from_days(29)));
        let verdict = limit.commit(&mut state, Cost::ONE, march);
        assert_eq!((verdict.remaining, verdict.reset_after), (1, april.since(march)));
        assert_eq!(limit.period(), Span::from_days(31));
    }

    #[test]
    fn a_calendar_day_is_a_day_since_the_epoch() {
        let day = FixedWindow::by_calendar(2, CalendarPeriod::Day).unwrap();
        let plain = FixedWindow::from_quota(&"2/day".parse().unwrap()).unwrap();
        for second in [0, 86_399, 86_400, 1_709_208_000] {
            let now = Timestamp::from_secs(second);
            assert_eq!(day.end(now), plain.end(now));
        }
    }

    #[test]
    fn a_burst_is_refused() {
        let error = FixedWindow::from_quota(&"5/minute burst 9".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("use token-bucket"));
    }
}
