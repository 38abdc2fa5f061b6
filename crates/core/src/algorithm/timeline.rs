//! A compact list of instants, for the entries of the sliding log.

use crate::{Span, Timestamp};

/// Instants in order, each with a number of units, stored as variable-length gaps: an entry of an
/// ordinary limit takes three bytes, where two plain integers would take sixteen.
///
/// Each run is `gap << 1 | more`, followed by the units if `more` says that there is not exactly
/// one. Numbers are little-endian base 128. The gap of the first run is never read, because
/// `oldest` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UnitTimeline {
    oldest: Timestamp,
    newest: Timestamp,
    units: u64,
    bytes: Vec<u8>,
    /// Where the first run begins; everything before it has been dropped.
    head: usize,
}

/// Some units at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitRun {
    pub(super) at: Timestamp,
    pub(super) units: u64,
}

impl UnitTimeline {
    pub(super) fn newest(&self) -> Timestamp {
        self.newest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.units == 0
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Units after `cutoff`; all of them if there is no cutoff.
    pub(super) fn units_after(&self, cutoff: Option<Timestamp>) -> u64 {
        let gone = self.runs().take_while(|run| Some(run.at) <= cutoff).map(|run| run.units);
        self.units.saturating_sub(gone.fold(0, u64::saturating_add))
    }

    /// The instant of the `n`th unit (the first is 1) after `cutoff`.
    pub(super) fn nth_after(&self, n: u64, cutoff: Option<Timestamp>) -> Option<Timestamp> {
        let mut seen = 0_u64;
        self.runs().skip_while(|run| Some(run.at) <= cutoff).find_map(|run| {
            seen = seen.saturating_add(run.units);
            (seen >= n).then_some(run.at)
        })
    }

    /// Adds units at the end. An instant before the newest counts as the newest.
    pub(super) fn push(&mut self, run: UnitRun) {
        if run.units == 0 {
            return;
        }
        if self.is_empty() {
            *self = Self { bytes: std::mem::take(&mut self.bytes), ..Self::default() };
            self.bytes.clear();
            (self.oldest, self.newest) = (run.at, run.at);
        }
        let gap = run.at.since(self.newest).as_micros();
        self.newest = self.newest.max(run.at);
        self.units = self.units.saturating_add(run.units);
        let more = u64::from(run.units != 1);
        write_number(&mut self.bytes, gap << 1 | more);
        if more == 1 {
            write_number(&mut self.bytes, run.units);
        }
    }

    /// Forgets everything up to and including `cutoff`.
    pub(super) fn drop_until(&mut self, cutoff: Timestamp) {
        let mut runs = self.runs();
        let mut gone = 0_u64;
        let (head, oldest) = loop {
            let head = runs.head;
            match runs.next() {
                Some(run) if run.at <= cutoff => gone = gone.saturating_add(run.units),
                Some(run) => break (head, run.at),
                None => break (head, self.newest),
            }
        };
        self.units = self.units.saturating_sub(gone);
        (self.head, self.oldest) = (head, oldest);
        // Once half is gone, moving the rest to the front costs less than it saves.
        if self.head > self.bytes.len() / 2 {
            self.bytes.drain(..self.head);
            self.head = 0;
        }
    }

    /// Removes the newest units.
    pub(super) fn pop_newest(&mut self, units: u64) {
        let kept = self.units.saturating_sub(units);
        if kept == 0 {
            *self = Self::default();
            return;
        }
        let (mut runs, mut rest, mut newest) = (self.runs(), kept, self.oldest);
        // The run that is cut in two, or gone, and where it begins.
        let (cut, end) = loop {
            let head = runs.head;
            match runs.next() {
                Some(run) if run.units <= rest => {
                    rest = rest.saturating_sub(run.units);
                    newest = run.at;
                }
                Some(run) => break (UnitRun { units: rest, ..run }, head),
                None => return,
            }
        };
        self.bytes.truncate(end);
        (self.newest, self.units) = (newest, kept.saturating_sub(rest));
        self.push(cut);
    }

    /// Moves what lies after `now` to `now`.
    pub(super) fn pull_back_to(&mut self, now: Timestamp) {
        self.rebuild(|runs, rebuilt| {
            for run in runs {
                rebuilt.push(UnitRun { at: run.at.min(now), ..run });
            }
        });
    }

    /// Merges everything that falls into the same cell of a grid, at the latest of its instants:
    /// fewer entries, none forgotten early, and none kept longer by more than a cell.
    pub(super) fn join_within(&mut self, cell: Span) {
        self.rebuild(|mut runs, rebuilt| {
            let Some(mut joined) = runs.next() else { return };
            for run in runs {
                if run.at.window_start(cell) == joined.at.window_start(cell) {
                    joined = UnitRun { at: run.at, units: joined.units.saturating_add(run.units) };
                } else {
                    rebuilt.push(joined);
                    joined = run;
                }
            }
            rebuilt.push(joined);
        });
        self.bytes.shrink_to_fit();
    }

    fn rebuild(&mut self, copy: impl FnOnce(UnitRuns<'_>, &mut Self)) {
        let mut rebuilt = Self::default();
        copy(self.runs(), &mut rebuilt);
        *self = rebuilt;
    }

    /// All runs, oldest first.
    pub(super) fn runs(&self) -> UnitRuns<'_> {
        UnitRuns { bytes: &self.bytes, head: self.head, at: None, oldest: self.oldest }
    }
}

/// Iterates over the runs of a timeline.
pub(super) struct UnitRuns<'a> {
    bytes: &'a [u8],
    head: usize,
    at: Option<Timestamp>,
    oldest: Timestamp,
}

impl Iterator for UnitRuns<'_> {
    type Item = UnitRun;

    fn next(&mut self) -> Option<UnitRun> {
        let (first, head) = read_number(self.bytes, self.head)?;
        let (units, head) = match first & 1 {
            0 => (1, head),
            _ => read_number(self.bytes, head)?,
        };
        self.head = head;
        let at = match self.at {
            None => self.oldest,
            Some(before) => before + Span::from_micros(first >> 1),
        };
        self.at = Some(at);
        Some(UnitRun { at, units })
    }
}

fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_number(bytes: &[u8], mut head: usize) -> Option<(u64, usize)> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(head)?;
        head += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some((number, head))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn timeline(runs: &[(u64, u64)]) -> UnitTimeline {
        let mut timeline = UnitTimeline::default();
        for (micros, units) in runs {
            timeline.push(UnitRun { at: at(*micros), units: *units });
        }
        timeline
    }

    fn list(timeline: &UnitTimeline) -> Vec<(u64, u64)> {
        timeline.runs().map(|run| (run.at.as_micros(), run.units)).collect()
    }

    #[test]
    fn numbers_survive_the_round_trip() {
        let mut bytes = Vec::new();
        let numbers = [0, 1, 127, 128, 300, 1 << 53, u64::MAX];
        numbers.iter().for_each(|number| write_number(&mut bytes, *number));
        let mut head = 0;
        for number in numbers {
            let (read, next) = read_number(&bytes, head).unwrap();
            assert_eq!(read, number);
            head = next;
        }
        assert_eq!(read_number(&bytes, head), None);
    }

    #[test]
    fn an_entry_of_an_ordinary_limit_takes_three_bytes() {
        // 100 a minute, evenly spaced.
        let timeline = timeline(&(0..100).map(|i| (i * 600_000, 1)).collect::<Vec<_>>());
        assert!(timeline.bytes.len() <= 300);
    }

    #[test]
    fn runs_are_dropped_from_the_front_and_popped_from_the_back() {
        let mut timeline = timeline(&[(10, 1), (10, 4), (20, 1), (30, 7)]);
        assert_eq!(timeline.units_after(Some(at(10))), 8);
        assert_eq!(timeline.nth_after(2, Some(at(10))), Some(at(30)));
        assert_eq!(timeline.nth_after(9, Some(at(10))), None);
        timeline.drop_until(at(10));
        assert_eq!(list(&timeline), [(20, 1), (30, 7)]);
        timeline.push(UnitRun { at: at(25), units: 2 });
        assert_eq!(list(&timeline), [(20, 1), (30, 7), (30, 2)]);
        timeline.pop_newest(5);
        assert_eq!(list(&timeline), [(20, 1), (30, 4)]);
        timeline.drop_until(at(30));
        assert!(timeline.is_empty() && list(&timeline).is_empty());
        timeline.push(UnitRun { at: at(5), units: 1 });
        assert_eq!((list(&timeline), timeline.newest()), (vec![(5, 1)], at(5)));
    }

    #[test]
    fn joining_never_forgets_early() {
        let mut timeline = timeline(&[(10, 1), (19, 2), (20, 3), (45, 4)]);
        timeline.join_within(Span::from_micros(10));
        assert_eq!(list(&timeline), [(19, 3), (20, 3), (45, 4)]);
        timeline.pull_back_to(at(25));
        assert_eq!(list(&timeline), [(19, 3), (20, 3), (25, 4)]);
    }

    #[test]
    fn memory_stays_bounded_while_time_passes() {
        let mut timeline = UnitTimeline::default();
        for micros in (0..1_000_000).step_by(1_000) {
            timeline.drop_until(at(micros).before(Span::from_micros(10_000)));
            timeline.push(UnitRun { at: at(micros), units: 1 });
        }
        assert_eq!(timeline.units, 10);
        assert!(timeline.heap_bytes() <= 128, "{}", timeline.heap_bytes());
    }
}
