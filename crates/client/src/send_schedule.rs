//! The schedule of requests to one server: how many were sent, and the turns of those that wait.

use std::time::Duration;

use tokio::time::Instant;

/// When each waiting request will be sent. A turn belongs to a call until it is sent or gives the turn
/// back; other turns never move.
#[derive(Debug, Default)]
pub(crate) struct SendSchedule {
    /// The turns of waiting requests, in order.
    waiting: Vec<Instant>,
    last_sent: Option<Instant>,
    sent_count: u64,
}

impl SendSchedule {
    /// The first time from `earliest` on that is at least `gap` away from all others.
    pub(crate) fn first_free(&self, earliest: Instant, gap: Duration) -> Instant {
        if gap.is_zero() {
            return earliest;
        }
        let mut start = self.last_sent.map_or(earliest, |last| earliest.max(last + gap));
        for taken in &self.waiting {
            if start + gap <= *taken {
                break;
            }
            start = start.max(*taken + gap);
        }
        start
    }

    pub(crate) fn reserve(&mut self, start: Instant) {
        let index = self.waiting.partition_point(|taken| *taken <= start);
        self.waiting.insert(index, start);
    }

    /// Gives back the turn of a call that will not be sent. Equal turns are interchangeable.
    pub(crate) fn give_back(&mut self, start: Instant) {
        if let Ok(index) = self.waiting.binary_search(&start) {
            self.waiting.remove(index);
        }
    }

    /// Records that a request is sent, with its turn if it had one. Returns its number.
    pub(crate) fn begin_send(&mut self, turn: Option<Instant>, now: Instant) -> u64 {
        if let Some(start) = turn {
            self.give_back(start);
        }
        self.last_sent = self.last_sent.max(Some(now));
        self.sent_count += 1;
        self.sent_count
    }

    /// How many requests were sent.
    pub(crate) const fn sent_count(&self) -> u64 {
        self.sent_count
    }

    /// How many waiting requests will be sent before `end`.
    pub(crate) fn waiting_until(&self, end: Instant) -> u64 {
        self.waiting.partition_point(|taken| *taken < end) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Duration = Duration::from_secs(10);

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn turns_are_spaced_and_a_free_turn_is_reused() {
        let (mut schedule, now) = (SendSchedule::default(), Instant::now());
        assert_eq!(schedule.first_free(now, GAP), now);
        schedule.begin_send(None, now);
        for turn in 1..=5 {
            let start = schedule.first_free(now, GAP);
            assert_eq!(start - now, GAP * turn);
            schedule.reserve(start);
        }
        schedule.give_back(now + GAP * 2);
        schedule.give_back(now + GAP * 3);
        assert_eq!(schedule.waiting_until(now + seconds(41)), 2);
        assert_eq!(schedule.first_free(now, GAP), now + GAP * 2);
        // The free gap is exactly thirty seconds wide.
        assert_eq!(schedule.first_free(now, seconds(15)), now + seconds(25));
        assert_eq!(schedule.first_free(now, seconds(16)), now + seconds(50 + 16));
        assert_eq!(schedule.first_free(now, Duration::ZERO), now);
        assert_eq!(schedule.first_free(now + seconds(100), GAP), now + seconds(100));
    }

    #[test]
    fn a_call_that_is_dropped_frees_its_turn() {
        let (mut schedule, now) = (SendSchedule::default(), Instant::now());
        schedule.reserve(now);
        schedule.reserve(now);
        assert_eq!(schedule.begin_send(Some(now), now), 1);
        assert_eq!(schedule.begin_send(Some(now), now), 2);
        assert_eq!(schedule.waiting_until(now + seconds(1)), 0);
        assert_eq!(schedule.first_free(now, GAP), now + GAP);
    }
}
