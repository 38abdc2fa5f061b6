//! The adaptive throttle of the SRE book: refuses calls locally that the server would refuse.

use std::time::Duration;

use tokio::time::Instant;

use crate::allowance::FOR_EVER;
use crate::backoff::Jitter;

/// Refuses some calls locally, without sending them, while their server refuses many.
///
/// Recently, `requests` were made to a server, and `accepts` of them were answered and not refused. A
/// call is refused locally with probability `(requests - K * accepts) / (requests + 1)`: with K = 2,
/// as soon as less than half pass. A call refused locally counts as a request, so the probability
/// rises until the server recovers.
///
/// Each server has its own counts, by the layer's [`scope`](crate::PoliteLayer::scope). Every attempt
/// counts as a request, also a retry; only calls are refused, since retries have a
/// [`RetryBudget`](crate::RetryBudget). A call that is too early to be sent does not count.
///
/// ```
/// use tidegate::client::{PoliteLayer, AdaptiveThrottle};
///
/// let layer = PoliteLayer::new().throttle(AdaptiveThrottle::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveThrottle {
    /// K in hundredths. Defaults to 200. Less is stricter, 100 the strictest.
    pub percent: u32,
    /// How long a call is remembered. Defaults to two minutes.
    pub window: Duration,
}

impl Default for AdaptiveThrottle {
    fn default() -> Self {
        Self { percent: 200, window: Duration::from_secs(120) }
    }
}

/// The recent requests and accepts, in parts of the window.
#[derive(Debug, Default)]
pub(crate) struct AcceptanceWindow {
    parts: [AcceptanceWindowPart; PARTS],
    /// When the first part began; `turn` is the number of the latest part.
    epoch: Option<Instant>,
    turn: u128,
    /// When the latest event is forgotten.
    until: Option<Instant>,
}

/// The counts of one part of the window.
#[derive(Clone, Copy, Debug, Default)]
struct AcceptanceWindowPart {
    requests: u64,
    accepts: u64,
}

impl AcceptanceWindow {
    /// Whether to refuse a call locally. A refused call is counted.
    pub(crate) fn refuses(
        &mut self,
        now: Instant,
        rule: &AdaptiveThrottle,
        jitter: &mut Jitter,
    ) -> bool {
        self.turn_to(now, rule);
        let requests: u64 = self.parts.iter().map(|part| part.requests).sum();
        let accepts: u64 = self.parts.iter().map(|part| part.accepts).sum();
        let expected = accepts.saturating_mul(rule.percent.into());
        let excess = requests.saturating_mul(100).saturating_sub(expected);
        let is_refused = jitter.below(requests.saturating_add(1).saturating_mul(100)) < excess;
        self.part().requests += u64::from(is_refused);
        is_refused
    }

    /// Records an attempt that is sent.
    pub(crate) fn record_sent(&mut self, now: Instant, rule: &AdaptiveThrottle) {
        self.turn_to(now, rule);
        self.part().requests += 1;
    }

    /// Records an attempt that was not refused.
    pub(crate) fn record_accepted(&mut self, now: Instant, rule: &AdaptiveThrottle) {
        self.turn_to(now, rule);
        self.part().accepts += 1;
    }

    /// When everything is forgotten, if there is anything.
    pub(crate) fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    /// Drops the parts that have left the window.
    fn turn_to(&mut self, now: Instant, rule: &AdaptiveThrottle) {
        let epoch = *self.epoch.get_or_insert(now);
        self.until = now.checked_add(rule.window.min(FOR_EVER));
        let part = (rule.window / PARTS as u32).as_micros().max(1);
        let turn = now.saturating_duration_since(epoch).as_micros() / part;
        let passed = turn.saturating_sub(self.turn).min(PARTS as u128);
        for _ in 0..passed {
            self.turn += 1;
            *self.part() = AcceptanceWindowPart::default();
        }
        self.turn = self.turn.max(turn);
    }

    fn part(&mut self) -> &mut AcceptanceWindowPart {
        &mut self.parts[(self.turn % PARTS as u128) as usize]
    }
}

const PARTS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused_of(recent: &mut AcceptanceWindow, now: Instant, calls: u32, accepted: bool) -> u32 {
        let (rule, mut jitter) = (AdaptiveThrottle::default(), Jitter::seeded(7));
        let mut refused = 0;
        for _ in 0..calls {
            if recent.refuses(now, &rule, &mut jitter) {
                refused += 1;
                continue;
            }
            recent.record_sent(now, &rule);
            if accepted {
                recent.record_accepted(now, &rule);
            }
        }
        refused
    }

    #[test]
    fn a_server_that_accepts_is_never_throttled() {
        assert_eq!(refused_of(&mut AcceptanceWindow::default(), Instant::now(), 1_000, true), 0);
    }

    #[test]
    fn sent_calls_count_and_intended_calls_do_not() {
        let (mut recent, now) = (AcceptanceWindow::default(), Instant::now());
        let (rule, mut jitter) = (AdaptiveThrottle::default(), Jitter::seeded(7));
        for _ in 0..100 {
            assert!(!recent.refuses(now, &rule, &mut jitter));
        }
        assert_eq!(refused_of(&mut recent, now, 10, true), 0);
        for _ in 0..100 {
            recent.record_sent(now, &rule);
        }
        assert!(refused_of(&mut recent, now, 100, true) > 50);
    }

    #[test]
    fn a_server_that_refuses_is_throttled_until_the_window_ends() {
        let (mut recent, now) = (AcceptanceWindow::default(), Instant::now());
        let refused = refused_of(&mut recent, now, 1_000, false);
        assert!(refused > 970, "{refused}");
        // 100 accepted ones allow 200 requests; the thousand before still count.
        let later = now + Duration::from_secs(60);
        assert!(refused_of(&mut recent, later, 100, true) > 50);
        let after = now + Duration::from_secs(300);
        assert_eq!(
            (recent.until(after), recent.until(later)),
            (None, Some(later + AdaptiveThrottle::default().window))
        );
        assert_eq!(refused_of(&mut recent, after, 100, true), 0);
    }
}
