//! Sorts lines that are slightly out of order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate::{Span, Timestamp};

/// Holds lines until nothing earlier is expected any more.
///
/// Servers write a line when a request ends, so lines are out of order by about as long as requests
/// take. A line later than that is counted at the time of the line before it: time never goes back.
#[derive(Debug)]
pub(super) struct ReorderBuffer<T> {
    held: BinaryHeap<Reverse<ReorderEntry<T>>>,
    slack: Span,
    newest: Timestamp,
    released: Timestamp,
    sequence: u64,
    /// Entries with at least this number are fresh.
    fresh_from: u64,
    /// How many lines came too late.
    pub(super) late: u64,
    /// How many lines were too far ahead of all others to wait for their time.
    pub(super) ahead: u64,
}

#[derive(Debug)]
struct ReorderEntry<T> {
    at: Timestamp,
    sequence: u64,
    item: T,
}

impl<T> ReorderBuffer<T> {
    pub(super) const fn new(slack: Span) -> Self {
        Self {
            held: BinaryHeap::new(),
            slack,
            newest: Timestamp::ZERO,
            released: Timestamp::ZERO,
            sequence: 0,
            fresh_from: 0,
            late: 0,
            ahead: 0,
        }
    }

    pub(super) fn push(&mut self, at: Timestamp, item: T) {
        self.late += u64::from(at < self.released);
        self.newest = self.newest.max(at);
        self.held.push(Reverse(ReorderEntry { at, sequence: self.sequence, item }));
        self.sequence += 1;
    }

    /// The next line, if no earlier one is expected any more.
    pub(super) fn pop_ready(&mut self) -> Option<(Timestamp, T)> {
        let Reverse(first) = self.held.peek()?;
        if first.at + self.slack <= self.newest || self.held.len() > MOST_HELD {
            return self.pop();
        }
        None
    }

    /// Takes out the lines that were already held at the last call, and forgets their times. A line
    /// from a wrong clock would otherwise keep the text around it in memory.
    pub(super) fn take_stale(&mut self) -> Vec<(Timestamp, T)> {
        let since = std::mem::replace(&mut self.fresh_from, self.sequence);
        let is_fresh = |Reverse(held): &Reverse<ReorderEntry<T>>| held.sequence >= since;
        let all = std::mem::take(&mut self.held).into_vec();
        let (fresh, stale): (Vec<_>, Vec<_>) = all.into_iter().partition(is_fresh);
        self.newest = fresh.iter().map(|Reverse(held)| held.at).fold(self.released, Timestamp::max);
        self.held = fresh.into();
        self.ahead += stale.len() as u64;
        stale.into_iter().map(|Reverse(held)| (self.released, held.item)).collect()
    }

    /// The next line, whether or not an earlier one may follow.
    pub(super) fn pop(&mut self) -> Option<(Timestamp, T)> {
        let Reverse(ReorderEntry { at, item, .. }) = self.held.pop()?;
        self.released = self.released.max(at);
        Some((self.released, item))
    }
}

impl<T> Ord for ReorderEntry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl<T> PartialOrd for ReorderEntry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for ReorderEntry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for ReorderEntry<T> {}

/// Each takes 40 bytes, and keeps the text of its line.
const MOST_HELD: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(times: &[u64], slack: u64) -> (Vec<u64>, u64) {
        let mut reorder = ReorderBuffer::new(Span::from_secs(slack));
        let mut out = Vec::new();
        for time in times {
            reorder.push(Timestamp::from_secs(*time), ());
            out.extend(std::iter::from_fn(|| reorder.pop_ready()));
        }
        out.extend(std::iter::from_fn(|| reorder.pop()));
        let seconds = out.iter().map(|(at, ())| at.as_micros() / 1_000_000);
        (seconds.collect(), reorder.late)
    }

    #[test]
    fn what_is_within_the_slack_comes_in_order() {
        assert_eq!(sorted(&[5, 3, 4, 9, 7, 12], 4), (vec![3, 4, 5, 7, 9, 12], 0));
        assert_eq!(sorted(&[5, 3, 4], 0), (vec![5, 5, 5], 2));
        assert_eq!(sorted(&[100, 1, 101], 10), (vec![1, 100, 101], 0), "at the start all is open");
        assert_eq!(sorted(&[10, 100, 20, 101], 10), (vec![10, 20, 100, 101], 0));
        assert_eq!(sorted(&[10, 100, 200, 20, 201], 10), (vec![10, 100, 100, 200, 201], 1));
    }

    #[test]
    fn a_line_from_the_far_future_is_not_held_for_ever_and_stops_no_clock() {
        let mut reorder = ReorderBuffer::new(Span::from_secs(10));
        for secs in [5, 9_999, 6] {
            reorder.push(Timestamp::from_secs(secs), secs);
        }
        let ready: Vec<_> =
            std::iter::from_fn(|| reorder.pop_ready()).map(|(_, item)| item).collect();
        assert_eq!(ready, [5, 6]);
        assert!(reorder.take_stale().is_empty(), "it may yet come true");
        reorder.push(Timestamp::from_secs(7), 7);
        assert_eq!(reorder.take_stale(), [(Timestamp::from_secs(6), 9_999)]);
        assert_eq!((reorder.ahead, reorder.pop_ready()), (1, None));
        assert_eq!(reorder.pop(), Some((Timestamp::from_secs(7), 7)));
    }

    #[test]
    fn a_log_that_stands_still_is_not_held_for_ever() {
        let mut reorder = ReorderBuffer::new(Span::from_secs(60));
        for _ in 0..=MOST_HELD {
            reorder.push(Timestamp::from_secs(1), ());
        }
        assert!(reorder.pop_ready().is_some() && reorder.pop_ready().is_none());
    }
}
