//! What a policy of a server still allows, by its last answer and what has left since.

use std::time::Duration;

use tokio::time::Instant;

use crate::send_schedule::SendSchedule;
use crate::server_limits::{ServerLimit, ServerLimits, gap};

/// What may be used until some time, by one policy.
#[derive(Debug)]
pub(crate) struct ServerAllowance {
    limit: ServerLimit,
    until: Instant,
    /// The most that was ever left: the quota, as long as nobody says it.
    most_seen: u64,
    /// How many requests had left when this was said.
    since: u64,
    /// How many have left since that do not count.
    exempt: u64,
}

/// What an allowance asks of the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestPace {
    /// Nothing: there is plenty.
    Free,
    /// To be so long after the one before.
    Spaced(Duration),
    /// To wait so long, for the next window.
    NextWindow(Duration),
}

impl ServerAllowance {
    pub(crate) fn new(standing: ServerLimit, line: &SendSchedule, now: Instant) -> Self {
        Self {
            until: until(&standing, now).unwrap_or(now),
            most_seen: standing.remaining,
            since: line.sent_count(),
            exempt: 0,
            limit: standing,
        }
    }

    /// Whether it is of the same limit. A policy may have several, with partitions or windows that differ;
    /// and a response need not repeat what the policy is.
    pub(crate) fn is_same_limit(&self, standing: &ServerLimit) -> bool {
        let windows = self.limit.window.zip(standing.window);
        self.limit.name == standing.name
            && self.limit.partition == standing.partition
            && windows.is_none_or(|(one, other)| one == other)
    }

    /// Says the same limit anew. One that does not say for how long lasts as long as it did.
    pub(crate) fn update(&mut self, standing: ServerLimit, line: &SendSchedule, now: Instant) {
        let (quota, window) = (self.limit.quota, self.limit.window);
        let standing = ServerLimit {
            quota: standing.quota.or(quota),
            window: standing.window.or(window),
            ..standing
        };
        let most_seen = self.most_seen.max(standing.remaining);
        let until = until(&standing, now).unwrap_or(self.until);
        *self = Self { most_seen, until, ..Self::new(standing, line, now) };
    }

    /// A response that names only other limits: this one has not counted the request, which was the
    /// so-manieth to leave.
    pub(crate) fn count_exempt(&mut self, told: &ServerLimits, number: u64) {
        if number > self.since && told.is_about_other_limits(&self.limit) {
            self.exempt += 1;
        }
    }

    /// As long as more than half of the quota is left, requests are free. Below that, they are spread
    /// over what is left of the window, so that the quota lasts.
    pub(crate) fn pace(&self, line: &SendSchedule, now: Instant) -> RequestPace {
        if self.is_over(now) {
            return RequestPace::Free;
        }
        let left = self.until - now;
        let left_since = line.sent_count().saturating_sub(self.since + self.exempt);
        let used = left_since + line.waiting_until(self.until);
        let remaining = self.limit.remaining.saturating_sub(used);
        if remaining == 0 {
            // A sliding window is full again only after two; but after one there is room again.
            return RequestPace::NextWindow(
                self.limit.window.map_or(left, |window| window.min(left)),
            );
        }
        if remaining.saturating_mul(2) > self.limit.quota.unwrap_or(self.most_seen) {
            return RequestPace::Free;
        }
        let gap = gap(left, remaining);
        // Never slower than the policy itself allows for ever.
        RequestPace::Spaced(self.limit.steady_gap().map_or(gap, |steady| steady.min(gap)))
    }

    /// Over how long to come back after a wait for this policy, so that those who wait for it do not
    /// come back as one: a quarter of the wait. Whoever waits for much longer than it takes to allow
    /// one more waits for the edge of the window, as everybody does: then it is a quarter of the
    /// window, however little of it is left.
    pub(crate) fn spread(&self, wait: Duration) -> Duration {
        wait.max(self.window_of(wait).unwrap_or_default()) / 4
    }

    /// The window, if that is what somebody waits for who waits for so long.
    pub(crate) fn window_of(&self, wait: Duration) -> Option<Duration> {
        let is_for_an_edge = |gap: Duration| wait > gap.saturating_mul(2);
        let is_edge = self.limit.steady_gap().is_some_and(is_for_an_edge);
        self.limit.window.filter(|window| is_edge && wait <= *window)
    }

    pub(crate) const fn until(&self) -> Instant {
        self.until
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }
}

fn until(standing: &ServerLimit, now: Instant) -> Option<Instant> {
    now.checked_add(standing.lasts_for()?.min(FOR_EVER))
}

/// As good as never: no call waits that long.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(1_000 * 86_400);
