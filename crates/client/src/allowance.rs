//! What a policy of a server still allows, by its last answer and what has left since.

use std::time::Duration;

use tokio::time::Instant;

use crate::line::Line;
use crate::told::{Standing, Told, gap};

/// What may be used until some time, by one policy.
#[derive(Debug)]
pub(crate) struct Allowance {
    standing: Standing,
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
pub(crate) enum Pace {
    /// Nothing: there is plenty.
    Free,
    /// To be so long after the one before.
    Apart(Duration),
    /// To wait so long, for the next window.
    NextWindow(Duration),
}

impl Allowance {
    pub(crate) fn new(standing: Standing, line: &Line, now: Instant) -> Self {
        Self {
            until: until(&standing, now).unwrap_or(now),
            most_seen: standing.remaining,
            since: line.left(),
            exempt: 0,
            standing,
        }
    }

    /// Whether it is of the same limit. A policy may have several, with partitions or windows that differ;
    /// and a response need not repeat what the policy is.
    pub(crate) fn is_of(&self, standing: &Standing) -> bool {
        let windows = self.standing.window.zip(standing.window);
        self.standing.name == standing.name
            && self.standing.partition == standing.partition
            && windows.is_none_or(|(one, other)| one == other)
    }

    /// Says the same limit anew. One that does not say for how long lasts as long as it did.
    pub(crate) fn update(&mut self, standing: Standing, line: &Line, now: Instant) {
        let (quota, window) = (self.standing.quota, self.standing.window);
        let standing = Standing {
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
    pub(crate) fn heed(&mut self, told: &Told, number: u64) {
        if number > self.since && told.is_of_others(&self.standing) {
            self.exempt += 1;
        }
    }

    /// As long as more than half of the quota is left, requests are free. Below that, they are spread
    /// over what is left of the window, so that the quota lasts.
    pub(crate) fn pace(&self, line: &Line, now: Instant) -> Pace {
        if self.is_over(now) {
            return Pace::Free;
        }
        let left = self.until - now;
        let left_since = line.left().saturating_sub(self.since + self.exempt);
        let used = left_since + line.waiting_until(self.until);
        let remaining = self.standing.remaining.saturating_sub(used);
        if remaining == 0 {
            // A sliding window is full again only after two; but after one there is room again.
            return Pace::NextWindow(self.standing.window.map_or(left, |window| window.min(left)));
        }
        if remaining.saturating_mul(2) > self.standing.quota.unwrap_or(self.most_seen) {
            return Pace::Free;
        }
        let gap = gap(left, remaining);
        // Never slower than the policy itself allows for ever.
        Pace::Apart(self.standing.steady_gap().map_or(gap, |steady| steady.min(gap)))
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
        let is_edge = self.standing.steady_gap().is_some_and(is_for_an_edge);
        self.standing.window.filter(|window| is_edge && wait <= *window)
    }

    pub(crate) const fn until(&self) -> Instant {
        self.until
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }
}

fn until(standing: &Standing, now: Instant) -> Option<Instant> {
    now.checked_add(standing.lasts_for()?.min(FOR_EVER))
}

/// As good as never: no call waits that long.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(1_000 * 86_400);
