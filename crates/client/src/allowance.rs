//! What a server's policy still allows, by its last answer and what has left since.

use std::time::Duration;

use tokio::time::Instant;

use crate::line::Line;
use crate::told::Standing;

/// What may be used until some time.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    standing: Standing,
    until: Instant,
    /// The most that was ever left: the quota, as long as nobody says it.
    most_seen: u64,
    /// How many requests had left when this was said.
    since: u64,
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
    /// As a response says; `before` is what was known.
    pub(crate) fn new(
        standing: Standing,
        before: Option<&Self>,
        line: &Line,
        now: Instant,
    ) -> Self {
        let most_before = before.map_or(0, |before| before.most_seen);
        Self {
            until: now.checked_add(standing.reset.min(FOR_EVER)).unwrap_or(now),
            most_seen: most_before.max(standing.remaining),
            since: line.left(),
            standing,
        }
    }

    /// As long as more than half of the quota is left, requests are free. Below that, they are spread
    /// over what is left of the window, so that the quota lasts.
    pub(crate) fn pace(&self, line: &Line, now: Instant) -> Pace {
        if self.is_over(now) {
            return Pace::Free;
        }
        let left = self.until - now;
        let used = (line.left() - self.since) + line.waiting_until(self.until);
        let remaining = self.standing.remaining.saturating_sub(used);
        if remaining == 0 {
            // A sliding window is full again only after two; but after one there is room again.
            return Pace::NextWindow(self.standing.window.map_or(left, |window| window.min(left)));
        }
        if remaining.saturating_mul(2) > self.standing.quota.unwrap_or(self.most_seen) {
            return Pace::Free;
        }
        let gap = Standing { remaining, reset: left, ..self.standing }.gap();
        // Never slower than the policy itself allows for ever.
        Pace::Apart(self.standing.steady_gap().map_or(gap, |steady| steady.min(gap)))
    }

    /// Whoever waits for much longer than it takes the policy to allow one more waits for the edge of
    /// its window, as everybody does. Then this is the window.
    pub(crate) fn window_of(&self, wait: Duration) -> Option<Duration> {
        let is_for_an_edge = |gap: Duration| wait > gap.saturating_mul(2);
        self.standing.window.filter(|_| self.standing.steady_gap().is_some_and(is_for_an_edge))
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }
}

/// As good as never: no call waits that long.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(1_000 * 86_400);
