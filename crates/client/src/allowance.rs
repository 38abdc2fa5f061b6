//! What a server's limit still allows, by its last response and the requests sent since.

use std::time::Duration;

use tokio::time::Instant;

use crate::send_schedule::SendSchedule;
use crate::server_limits::{ServerLimit, ServerLimits, gap};

/// What one limit of a server allows until some time.
#[derive(Debug)]
pub(crate) struct ServerAllowance {
    limit: ServerLimit,
    until: Instant,
    /// The most that ever remained: it replaces the quota while that is unknown.
    most_seen: u64,
    /// How many requests had been sent when the server reported this.
    since: u64,
    /// How many of the requests sent since do not count.
    exempt: u64,
}

/// How an allowance paces the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestPace {
    /// Not at all: plenty remains.
    Free,
    /// This long after the request before.
    Spaced(Duration),
    /// After this wait, in the next window.
    NextWindow(Duration),
}

impl ServerAllowance {
    pub(crate) fn new(limit: ServerLimit, schedule: &SendSchedule, now: Instant) -> Self {
        Self {
            until: until(&limit, now).unwrap_or(now),
            most_seen: limit.remaining,
            since: schedule.sent_count(),
            exempt: 0,
            limit,
        }
    }

    /// Whether both are the same limit. A policy can have several limits with different partitions or
    /// windows, and a response can omit the policy's window.
    pub(crate) fn is_same_limit(&self, limit: &ServerLimit) -> bool {
        let windows = self.limit.window.zip(limit.window);
        self.limit.name == limit.name
            && self.limit.partition == limit.partition
            && windows.is_none_or(|(one, other)| one == other)
    }

    /// Replaces the limit by a newer state. Without a reset time, the old end stays.
    pub(crate) fn update(&mut self, limit: ServerLimit, schedule: &SendSchedule, now: Instant) {
        let (quota, window) = (self.limit.quota, self.limit.window);
        let limit =
            ServerLimit { quota: limit.quota.or(quota), window: limit.window.or(window), ..limit };
        let most_seen = self.most_seen.max(limit.remaining);
        let until = until(&limit, now).unwrap_or(self.until);
        *self = Self { most_seen, until, ..Self::new(limit, schedule, now) };
    }

    /// Records a response to request `number`. If it names only other limits, this one has not counted
    /// the request.
    pub(crate) fn count_exempt(&mut self, response: &ServerLimits, number: u64) {
        if number > self.since && response.is_about_other_limits(&self.limit) {
            self.exempt += 1;
        }
    }

    /// While more than half of the quota remains, requests are free. Below that, they are spread over
    /// the rest of the window, so that the quota lasts.
    pub(crate) fn pace(&self, schedule: &SendSchedule, now: Instant) -> RequestPace {
        if self.is_over(now) {
            return RequestPace::Free;
        }
        let left = self.until - now;
        let sent_since = schedule.sent_count().saturating_sub(self.since + self.exempt);
        let used = sent_since + schedule.waiting_until(self.until);
        let remaining = self.limit.remaining.saturating_sub(used);
        if remaining == 0 {
            // A sliding window resets only after two windows, but has room again after one.
            return RequestPace::NextWindow(
                self.limit.window.map_or(left, |window| window.min(left)),
            );
        }
        if remaining.saturating_mul(2) > self.limit.quota.unwrap_or(self.most_seen) {
            return RequestPace::Free;
        }
        let gap = gap(left, remaining);
        // Never slower than the policy's steady rate.
        RequestPace::Spaced(self.limit.steady_gap().map_or(gap, |steady| steady.min(gap)))
    }

    /// The time over which clients spread their return after a wait for this limit: a quarter of the
    /// wait. A wait much longer than the steady gap between requests is for the end of the window, which
    /// all clients share: then the spread is a quarter of the window, however little of it is left.
    pub(crate) fn spread(&self, wait: Duration) -> Duration {
        wait.max(self.window_of(wait).unwrap_or_default()) / 4
    }

    /// The window, if a wait of this length is for its end.
    pub(crate) fn window_of(&self, wait: Duration) -> Option<Duration> {
        let exceeds_gap = |gap: Duration| wait > gap.saturating_mul(2);
        let is_edge = self.limit.steady_gap().is_some_and(exceeds_gap);
        self.limit.window.filter(|window| is_edge && wait <= *window)
    }

    pub(crate) const fn until(&self) -> Instant {
        self.until
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }
}

fn until(limit: &ServerLimit, now: Instant) -> Option<Instant> {
    now.checked_add(limit.lasts_for()?.min(FOR_EVER))
}

/// Longer than any call waits, and short enough to be added to an `Instant`.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(1_000 * 86_400);
