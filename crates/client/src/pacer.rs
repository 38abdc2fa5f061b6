//! When the next request may leave: pure, by what the server has said and the time of now.

use std::time::Duration;

use tokio::time::Instant;

use crate::allowance::{Allowance, FOR_EVER, Pace};
use crate::backoff::Jitter;
use crate::line::Line;
use crate::told::Told;

/// What is known of one server's limits.
#[derive(Debug)]
pub(crate) struct Pacer {
    /// Whether requests wait before any is refused.
    paces: bool,
    /// A refusal said so.
    not_before: Option<Instant>,
    allowance: Option<Allowance>,
    line: Line,
}

impl Pacer {
    pub(crate) fn new(paces: bool) -> Self {
        Self { paces, not_before: None, allowance: None, line: Line::default() }
    }

    /// When a request that comes now may leave. It then has a turn, which it [takes](Self::leave) or
    /// [gives back](Self::give_back).
    ///
    /// Who has less patience than a refusal asks for gets no turn, but is told how long it would be.
    /// Pacing is a courtesy and refuses nobody: who cannot wait for a turn of the line leaves without,
    /// a little later, so that not all such leave together.
    pub(crate) fn reserve(
        &mut self,
        now: Instant,
        patience: Duration,
        jitter: &mut Jitter,
    ) -> Result<Instant, Duration> {
        let wait = if let Some(told) = self.blocked_until(now) {
            let wait = told - now;
            let wait = wait + jitter.beyond(self.spread(wait));
            Some(wait).filter(|wait| *wait <= patience).ok_or(wait)?
        } else {
            let wait = self.paced(now, jitter) - now;
            if wait > patience { jitter.up_to(patience.min(COURTESY)) } else { wait }
        };
        self.line.join(now + wait);
        Ok(now + wait)
    }

    /// When nothing is left, requests wait for the next window, each for a little longer than told,
    /// so that not all come back together.
    fn paced(&self, now: Instant, jitter: &mut Jitter) -> Instant {
        let allowance = self.allowance.as_ref().filter(|_| self.paces);
        match allowance.map_or(Pace::Free, |allowance| allowance.pace(&self.line, now)) {
            Pace::Free => now,
            Pace::Apart(gap) => self.line.vacancy(now, gap),
            Pace::NextWindow(wait) => now + wait + jitter.beyond(self.spread(wait)),
        }
    }

    /// Over how long to come back after a wait: a quarter of it. Who waits for the edge of a window
    /// has a quarter of the window, however little of it is left, or those who came last would come
    /// back as one.
    fn spread(&self, wait: Duration) -> Duration {
        let window = self.allowance.as_ref().and_then(|allowance| allowance.window_of(wait));
        wait.max(window.unwrap_or_default()) / 4
    }

    /// A call with a turn will not leave.
    pub(crate) fn give_back(&mut self, turn: Instant) {
        self.line.give_back(turn);
    }

    /// A request leaves.
    pub(crate) fn leave(&mut self, turn: Option<Instant>, now: Instant) {
        self.line.leave(turn, now);
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
        if let Some(standing) = &told.standing {
            let allowance = Allowance::new(*standing, self.allowance.as_ref(), &self.line, now);
            self.allowance = Some(allowance);
        }
    }

    /// Whether it knows nothing that still holds.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        self.blocked_until(now).is_none()
            && self.line.is_empty()
            && self.allowance.iter().all(|allowance| allowance.is_over(now))
    }
}

/// How long those wait at most who cannot wait for their turn: enough to slow a loop down.
const COURTESY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::told::Standing;

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

    /// The turn of somebody who has all the time of the world.
    fn reserve(pacer: &mut Pacer, now: Instant, jitter: &mut Jitter) -> Instant {
        pacer.reserve(now, Duration::MAX, jitter).unwrap()
    }

    fn refused(wait: u64) -> Told {
        Told { is_refused: true, retry_after: Some(seconds(wait)), standing: None }
    }

    #[test]
    fn nobody_leaves_before_the_time_that_a_refusal_said() {
        let (mut pacer, mut jitter, now) = (Pacer::new(true), Jitter::seeded(7), Instant::now());
        assert_eq!(reserve(&mut pacer, now, &mut jitter), now);
        pacer.learn(&refused(20), now);
        // A later answer, to a request that left earlier, changes nothing.
        pacer.learn(&refused(5), now);
        pacer.learn(&standing(10, 100), now);
        let starts: Vec<_> = (0..100).map(|_| reserve(&mut pacer, now, &mut jitter)).collect();
        assert!(starts.iter().all(|start| (20..=25).contains(&(*start - now).as_secs())));
        assert!(starts.iter().any(|start| *start - now > seconds(24)));
        let later = now + seconds(20);
        assert_eq!(pacer.blocked_until(later), None);
    }

    #[test]
    fn half_of_the_quota_is_free_and_the_rest_is_made_to_last() {
        let (mut pacer, mut jitter, now) = (Pacer::new(true), Jitter::seeded(7), Instant::now());
        pacer.learn(&standing(8, 40), now);
        // 8, 7 and 6 of 10 are more than half.
        for _ in 0..3 {
            assert_eq!(reserve(&mut pacer, now, &mut jitter), now);
        }
        // 5 for 40 seconds, then 4, and then no slower than 10 in 100 seconds.
        let gaps: Vec<_> =
            (0..4).map(|_| (reserve(&mut pacer, now, &mut jitter) - now).as_secs()).collect();
        assert_eq!(gaps, [8, 18, 28, 38]);
    }

    #[test]
    fn with_nothing_left_the_next_window_is_waited_for() {
        let (mut pacer, mut jitter, now) = (Pacer::new(true), Jitter::seeded(7), Instant::now());
        pacer.learn(&standing(0, 40), now);
        let first = reserve(&mut pacer, now, &mut jitter);
        // And a quarter of the window over which all come back.
        assert!((now + seconds(40)..=now + seconds(65)).contains(&first), "{:?}", first - now);
        pacer.learn(&standing(0, 200), now);
        let second = reserve(&mut pacer, now, &mut jitter);
        assert!((now + seconds(100)..=now + seconds(125)).contains(&second), "{:?}", second - now);
        // What was said is over.
        let later = now + seconds(201);
        assert!(!pacer.is_idle(later), "two have a turn");
        pacer.leave(Some(first), later);
        pacer.give_back(second);
        assert!(pacer.is_idle(later));
        assert_eq!(reserve(&mut pacer, later, &mut jitter), later);
    }

    #[test]
    fn pacing_refuses_nobody_and_a_refusal_the_impatient() {
        let (mut pacer, mut jitter, now) = (Pacer::new(true), Jitter::seeded(7), Instant::now());
        pacer.learn(&standing(2, 100), now);
        pacer.leave(None, now);
        for patience in [Duration::ZERO, seconds(5)] {
            let start = pacer.reserve(now, patience, &mut jitter).unwrap();
            assert!(start - now <= patience.min(COURTESY), "{:?}", start - now);
            pacer.give_back(start);
        }
        assert_eq!(pacer.reserve(now, seconds(10), &mut jitter), Ok(now + seconds(10)));
        pacer.learn(&refused(20), now);
        assert!(pacer.reserve(now, seconds(19), &mut jitter).unwrap_err() >= seconds(20));
        assert!(pacer.reserve(now, seconds(60), &mut jitter).is_ok());
    }

    #[test]
    fn turns_that_were_given_back_are_nobodys() {
        let (mut pacer, mut jitter, now) = (Pacer::new(true), Jitter::seeded(7), Instant::now());
        pacer.learn(&standing(5, 50), now);
        pacer.leave(None, now);
        let first = reserve(&mut pacer, now, &mut jitter);
        assert_eq!(first - now, seconds(10));
        let turns: Vec<_> = (0..20).map(|_| reserve(&mut pacer, now, &mut jitter)).collect();
        for turn in turns {
            pacer.give_back(turn);
        }
        // Nor does one for whom there is no turn take any.
        pacer.learn(&refused(1), now);
        assert!(pacer.reserve(now, Duration::ZERO, &mut jitter).is_err());
        let later = now + seconds(2);
        assert_eq!(reserve(&mut pacer, later, &mut jitter) - first, seconds(10));
    }

    #[test]
    fn without_a_policy_the_most_that_was_seen_is_the_quota() {
        let (mut pacer, mut jitter, now) = (Pacer::new(true), Jitter::seeded(7), Instant::now());
        let bare = |remaining| Told {
            standing: Some(Standing { remaining, reset: seconds(10), quota: None, window: None }),
            ..Told::default()
        };
        pacer.learn(&bare(9), now);
        assert_eq!(reserve(&mut pacer, now, &mut jitter), now);
        pacer.leave(Some(now), now);
        pacer.learn(&bare(2), now);
        assert_eq!(reserve(&mut pacer, now, &mut jitter) - now, seconds(5));
    }
}
