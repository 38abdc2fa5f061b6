//! Sliding log: remembers every request of the last window.

use super::packed::{INSTANT, instant, number, push};
use super::timeline::{UnitRun, UnitTimeline};
use super::{AdmissionBound, Algorithm, judge, refuse_burst};
use crate::{Cost, Quota, QuotaError, Span, Timestamp, Verdict};

/// Remembers each admitted request for one window, so no window ever holds more than the limit,
/// wherever it begins. Exact, at the price of memory for every request.
///
/// ```
/// use tidegate::algorithm::{Algorithm, SlidingLog};
/// use tidegate::{Cost, Span, Timestamp};
///
/// let limit = SlidingLog::from_quota(&"5/minute".parse()?)?;
/// let mut state = Default::default();
/// let _ = limit.commit(&mut state, Cost::new(5)?, Timestamp::from_secs(59));
/// let verdict = limit.probe(&state, Cost::ONE, Timestamp::from_secs(61));
/// assert_eq!(verdict.retry_after, Some(Span::from_secs(58)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    limit: u64,
    window: Span,
}

/// The admitted requests that can still count.
///
/// An entry of an ordinary limit takes about three bytes; entries that have left the window are dropped by
/// the next commit. So the memory of a key is bounded by its limit, not by its traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlidingLogState {
    /// When the newest entry leaves the window.
    until: Timestamp,
    entries: UnitTimeline,
}

impl SlidingLog {
    /// The largest limit. A log uses memory for every request it has admitted.
    pub const MAX_LIMIT: u64 = 100_000;

    /// Rebuilds the state from what a store keeps: instants, oldest first, each with its units.
    ///
    /// The instants are those at which the requests were admitted. They may be out of date: what has left the
    /// window is ignored by every method.
    pub fn state(&self, entries: impl IntoIterator<Item = (Timestamp, u64)>) -> SlidingLogState {
        let mut log = SlidingLogState::default();
        entries.into_iter().for_each(|(at, units)| log.entries.push(UnitRun { at, units }));
        self.date(&mut log);
        log
    }

    /// Entries at or before this instant have left the window. Until one window has passed since
    /// the epoch there is no such instant, so nothing has left.
    fn cutoff(&self, now: Timestamp) -> Option<Timestamp> {
        now.as_micros().checked_sub(self.window.as_micros()).map(Timestamp::from_micros)
    }

    fn verdict(&self, log: &SlidingLogState, cost: Cost, now: Timestamp) -> Verdict {
        let entries = &log.entries;
        let cutoff = self.cutoff(now);
        let count = entries.units_after(cutoff);
        let leaves = |at: Timestamp| (at.min(now) + self.window).since(now);
        let reset_after = if count == 0 { Span::ZERO } else { leaves(entries.newest()) };
        judge(self.limit, self.limit.saturating_sub(count), cost, reset_after, || {
            let excess = count.saturating_add(cost.get()).saturating_sub(self.limit);
            entries.nth_after(excess, cutoff).map_or(Span::ZERO, leaves)
        })
    }

    /// Drops entries that have left the window, and pulls back those in the future.
    fn tidy(&self, log: &mut SlidingLogState, now: Timestamp) {
        if let Some(cutoff) = self.cutoff(now) {
            log.entries.drop_until(cutoff);
        }
        if log.entries.newest() > now {
            log.entries.pull_back_to(now);
        }
        self.date(log);
    }

    fn date(&self, log: &mut SlidingLogState) {
        log.until = match log.entries.is_empty() {
            true => Timestamp::ZERO,
            false => log.entries.newest() + self.window,
        };
    }
}

impl Algorithm for SlidingLog {
    type State = SlidingLogState;

    const LETTER: u8 = b'l';
    const SUMMARY: &'static str = "every request of the last window; exact, and memory for each";

    fn from_quota(quota: &Quota) -> Result<Self, QuotaError> {
        refuse_burst(quota, "sliding-log")?;
        if quota.limit() > Self::MAX_LIMIT {
            return Err(QuotaError::new(
                quota,
                format!(
                    "sliding-log remembers every request; expected a limit of 0 to {}, or another algorithm",
                    Self::MAX_LIMIT
                ),
            ));
        }
        Ok(Self { limit: quota.limit(), window: quota.window() })
    }

    fn quota(&self) -> Quota {
        Quota::trusted(self.limit, self.window, None)
    }

    fn bound(&self) -> AdmissionBound {
        let longest = Some(self.window.minus(Span::from_micros(1)));
        AdmissionBound { at_once: self.limit, per_window: 0, longest }
    }

    fn period(&self) -> Span {
        self.window
    }

    fn admits(&self, state: &SlidingLogState, cost: Cost, now: Timestamp) -> bool {
        let count = state.entries.units_after(self.cutoff(now));
        self.limit > 0 && cost.get() <= self.limit.saturating_sub(count)
    }

    fn probe(&self, state: &SlidingLogState, cost: Cost, now: Timestamp) -> Verdict {
        self.verdict(state, cost, now)
    }

    fn commit(&self, state: &mut SlidingLogState, cost: Cost, now: Timestamp) -> Verdict {
        self.tidy(state, now);
        state.entries.push(UnitRun { at: now, units: cost.get() });
        self.date(state);
        self.verdict(state, Cost::PEEK, now)
    }

    /// Drops entries that have left the window here too, so that repeated denials do not read the same
    /// dead entries over and over.
    fn deny(&self, state: &mut SlidingLogState, _cost: Cost, now: Timestamp) {
        self.tidy(state, now);
    }

    fn refund(&self, state: &mut SlidingLogState, amount: Cost, now: Timestamp) {
        self.tidy(state, now);
        state.entries.pop_newest(amount.get());
        self.date(state);
    }

    fn forget_at(state: &SlidingLogState) -> Timestamp {
        state.until
    }

    /// The width of an entry's units, the total in four bytes, and the entries, oldest first.
    fn encode(state: &SlidingLogState, out: &mut Vec<u8>) {
        let entries = &state.entries;
        out.push(WIDE as u8);
        push(out, entries.units_after(None), 4);
        for run in entries.runs() {
            push(out, run.at.as_micros(), INSTANT);
            push(out, run.units, WIDE);
        }
    }

    fn decode(&self, raw: &[u8]) -> Option<SlidingLogState> {
        let (header, entries) = raw.split_at_checked(HEADER)?;
        let width = match header.first()? {
            1 => 1,
            3 => WIDE,
            _ => return None,
        };
        let entries = entries.chunks_exact(INSTANT + width);
        let read =
            |entry: &[u8]| (instant(number(entry, 0, INSTANT)), number(entry, INSTANT, width));
        entries.remainder().is_empty().then(|| self.state(entries.map(read)))
    }

    fn heap_bytes(state: &SlidingLogState) -> usize {
        state.entries.heap_bytes()
    }

    /// Entries in the same 64th of a window are merged into one, at the latest of their times.
    fn coarsen(&self, state: &mut SlidingLogState) {
        state.entries.join_within(Span::from_micros(self.window.as_micros().div_ceil(64)));
    }
}

/// What comes before the entries of a log in bytes.
const HEADER: usize = 5;
/// Bytes for the units of an entry: more than the largest limit needs.
const WIDE: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(quota: &str) -> SlidingLog {
        SlidingLog::from_quota(&quota.parse().unwrap()).unwrap()
    }

    #[test]
    fn an_entry_leaves_exactly_one_window_later() {
        let (limit, mut log) = (limit("1/second"), SlidingLogState::default());
        let _ = limit.commit(&mut log, Cost::ONE, Timestamp::from_micros(0));
        assert!(!limit.probe(&log, Cost::ONE, Timestamp::from_micros(999_999)).allowed);
        assert!(limit.probe(&log, Cost::ONE, Timestamp::from_micros(1_000_000)).allowed);
    }

    #[test]
    fn a_large_cost_waits_for_as_many_entries_as_it_needs() {
        let (limit, mut log) = (limit("5/minute"), SlidingLogState::default());
        for second in [1, 2, 3, 4] {
            let _ = limit.commit(&mut log, Cost::ONE, Timestamp::from_secs(second));
        }
        let wait = |cost| {
            let cost = Cost::new(cost).unwrap();
            limit.probe(&log, cost, Timestamp::from_secs(4)).retry_after
        };
        assert_eq!(wait(1), None);
        assert_eq!(wait(2), Some(Span::from_secs(57)));
        assert_eq!(wait(5), Some(Span::from_secs(60)));
    }

    #[test]
    fn a_coarse_log_forgets_late_and_by_little() {
        let (limit, mut fine) = (limit("1000/minute"), SlidingLogState::default());
        for millis in (0..60_000).step_by(100) {
            let _ = limit.commit(&mut fine, Cost::ONE, Timestamp::from_micros(millis * 1_000));
        }
        let mut coarse = fine.clone();
        limit.coarsen(&mut coarse);
        assert!(coarse.entries.heap_bytes() <= 64 * 8);
        let remaining = |log: &SlidingLogState, secs| {
            limit.probe(log, Cost::ONE, Timestamp::from_secs(secs)).remaining
        };
        for secs in 60..121 {
            let (exact, late) = (remaining(&fine, secs), remaining(&coarse, secs));
            assert!(late <= exact && exact - late <= 10, "{secs}: {exact} {late}");
        }
        let again = coarse.clone();
        limit.coarsen(&mut coarse);
        assert_eq!(coarse, again);
    }

    #[test]
    fn a_limit_that_memory_could_not_bear_is_refused() {
        let quota = "100001/minute".parse().unwrap();
        let error = SlidingLog::from_quota(&quota).unwrap_err().to_string();
        assert!(error.contains("expected a limit of 0 to 100000"), "{error}");
    }
}
