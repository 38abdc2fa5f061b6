//! When the next request may leave: pure, by what the server has said and the time of now.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Jitter;
use crate::told::{Standing, Told};

/// What is known of one server's limits.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// A refusal said so.
    not_before: Option<Instant>,
    allowance: Option<Allowance>,
    /// When the last request left, or will.
    last: Option<Instant>,
    /// The most that was ever left: the quota, as long as nobody says it.
    most_seen: u64,
}

/// What may be used until some time.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    remaining: u64,
    until: Instant,
    standing: Standing,
}

impl Pacer {
    /// When a request that comes now may leave. Counts it.
    ///
    /// As long as more than half of the quota is left, at once. Below that, requests are spread over
    /// what is left of the window, so that the quota lasts; and when nothing is left, they wait for
    /// the next one, each for a little longer than told, so that not all come back together.
    pub(crate) fn reserve(&mut self, now: Instant, jitter: &mut Jitter) -> Instant {
        let mut start = now;
        if let Some(told) = self.blocked_until(now) {
            start = told + jitter.beyond(self.spread(told - now));
        } else if let Some(allowance) = self.allowance.filter(|allowance| allowance.until > now) {
            start = self.paced(allowance, now, jitter);
        }
        if let Some(allowance) = &mut self.allowance {
            allowance.remaining = allowance.remaining.saturating_sub(1);
        }
        self.last = self.last.max(Some(start));
        start
    }

    fn paced(&self, allowance: Allowance, now: Instant, jitter: &mut Jitter) -> Instant {
        let Allowance { remaining, until, standing } = allowance;
        let quota = standing.quota.unwrap_or(self.most_seen);
        if remaining == 0 {
            // A sliding window is full again only after two; but after one there is room again.
            let wait = standing.window.map_or(until - now, |window| window.min(until - now));
            return now + wait + jitter.beyond(self.spread(wait));
        }
        if remaining.saturating_mul(2) > quota {
            return now;
        }
        let left = Standing { remaining, reset: until - now, ..standing };
        // Never slower than the policy itself allows for ever.
        let gap = steady_gap(&standing).map_or(left.gap(), |steady| steady.min(left.gap()));
        self.last.map_or(now, |last| now.max(last + gap))
    }

    /// Over how long to come back after a wait: a quarter of it. Who waits for much longer than it
    /// takes the policy to allow one more waits for the edge of a window, as everybody does: then it
    /// is a quarter of the window for all of them, however little of the window is left, or those
    /// who came last would come back as one.
    fn spread(&self, wait: Duration) -> Duration {
        let Some(Allowance { standing, .. }) = self.allowance else { return wait / 4 };
        let is_for_an_edge = steady_gap(&standing).is_some_and(|gap| wait > gap.saturating_mul(2));
        let window = standing.window.filter(|_| is_for_an_edge).unwrap_or_default();
        wait.max(window) / 4
    }

    /// Until when a refusal holds, if it does.
    pub(crate) fn blocked_until(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|not_before| *not_before > now)
    }

    /// Takes note of a response.
    pub(crate) fn learn(&mut self, told: &Told, now: Instant) {
        if told.is_refused
            && let Some(wait) = told.retry_after
        {
            let until = now.checked_add(wait).or_else(|| now.checked_add(FOR_EVER));
            self.not_before = self.not_before.max(until);
        }
        if let Some(standing) = told.standing {
            self.most_seen = self.most_seen.max(standing.remaining);
            let until = now.checked_add(standing.reset.min(FOR_EVER)).unwrap_or(now);
            self.allowance = Some(Allowance { remaining: standing.remaining, until, standing });
        }
    }

    /// Whether it knows nothing that still holds.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        let is_over = |at: Option<Instant>| at.is_none_or(|at| at <= now);
        is_over(self.not_before)
            && is_over(self.last)
            && is_over(self.allowance.map(|allowance| allowance.until))
    }
}

/// The policy's own rate, as the time between two requests.
fn steady_gap(standing: &Standing) -> Option<Duration> {
    let quota = u32::try_from(standing.quota?).unwrap_or(u32::MAX);
    standing.window?.checked_div(quota)
}

/// As good as never: no call waits that long.
const FOR_EVER: Duration = Duration::from_secs(1_000 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn standing(remaining: u64, reset: u64) -> Told {
        let standing = Standing {
            remaining,
            reset: seconds(reset),
            quota: Some(10),
            window: Some(seconds(100)),
        };
        Told { standing: Some(standing), ..Told::default() }
    }

    fn refused(wait: u64) -> Told {
        Told { is_refused: true, retry_after: Some(seconds(wait)), standing: None }
    }

    #[test]
    fn nobody_leaves_before_the_time_that_a_refusal_said() {
        let (mut pacer, mut jitter, now) = (Pacer::default(), Jitter::seeded(7), Instant::now());
        assert_eq!(pacer.reserve(now, &mut jitter), now);
        pacer.learn(&refused(20), now);
        // A later answer, to a request that left earlier, changes nothing.
        pacer.learn(&refused(5), now);
        pacer.learn(&standing(10, 100), now);
        let starts: Vec<_> = (0..100).map(|_| pacer.reserve(now, &mut jitter)).collect();
        assert!(starts.iter().all(|start| (20..=25).contains(&(*start - now).as_secs())));
        assert!(starts.iter().any(|start| *start - now > seconds(24)));
        let later = now + seconds(20);
        assert_eq!(pacer.blocked_until(later), None);
    }

    #[test]
    fn half_of_the_quota_is_free_and_the_rest_is_made_to_last() {
        let (mut pacer, mut jitter, now) = (Pacer::default(), Jitter::seeded(7), Instant::now());
        pacer.learn(&standing(8, 40), now);
        // 8, 7 and 6 of 10 are more than half.
        for _ in 0..3 {
            assert_eq!(pacer.reserve(now, &mut jitter), now);
        }
        // 5 for 40 seconds, then 4, and then no slower than 10 in 100 seconds.
        let gaps: Vec<_> =
            (0..4).map(|_| (pacer.reserve(now, &mut jitter) - now).as_secs()).collect();
        assert_eq!(gaps, [8, 18, 28, 38]);
    }

    #[test]
    fn with_nothing_left_the_next_window_is_waited_for() {
        let (mut pacer, mut jitter, now) = (Pacer::default(), Jitter::seeded(7), Instant::now());
        pacer.learn(&standing(0, 40), now);
        let wait = pacer.reserve(now, &mut jitter) - now;
        // And a quarter of the window over which all come back.
        assert!(wait >= seconds(40) && wait <= seconds(65), "{wait:?}");
        pacer.learn(&standing(0, 200), now);
        let wait = pacer.reserve(now, &mut jitter) - now;
        assert!(wait >= seconds(100) && wait <= seconds(125), "{wait:?}");
        // What was said is over.
        let later = now + seconds(201);
        assert_eq!(pacer.reserve(later, &mut jitter), later);
        assert!(pacer.is_idle(later));
    }

    #[test]
    fn without_a_policy_the_most_that_was_seen_is_the_quota() {
        let (mut pacer, mut jitter, now) = (Pacer::default(), Jitter::seeded(7), Instant::now());
        let bare = |remaining| Told {
            standing: Some(Standing { remaining, reset: seconds(10), quota: None, window: None }),
            ..Told::default()
        };
        pacer.learn(&bare(9), now);
        assert_eq!(pacer.reserve(now, &mut jitter), now);
        pacer.learn(&bare(2), now);
        assert_eq!(pacer.reserve(now, &mut jitter) - now, seconds(5));
    }
}
