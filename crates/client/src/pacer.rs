//! When the next request may leave: pure, by what the server has said and the time of now.

use std::time::Duration;

use tokio::time::Instant;

use crate::allowance::{FOR_EVER, RequestPace, ServerAllowance};
use crate::backoff::Jitter;
use crate::send_schedule::SendSchedule;
use crate::server_limits::{ServerLimit, ServerLimits};

/// What is known of one server's limits.
#[derive(Debug)]
pub(crate) struct Pacer {
    /// Whether requests wait before any is refused.
    paces: bool,
    /// How long one refusal holds at most.
    max_block: Duration,
    /// A refusal said so.
    not_before: Option<Instant>,
    /// One for each limit that the server has named.
    allowances: Vec<ServerAllowance>,
    schedule: SendSchedule,
}

impl Pacer {
    pub(crate) fn new(paces: bool, max_block: Duration) -> Self {
        let (allowances, line) = (Vec::new(), SendSchedule::default());
        Self { paces, max_block, not_before: None, allowances, schedule: line }
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
            // Jitter is ours: what is too long to wait for is said by the server alone.
            let spare = patience.checked_sub(wait).ok_or(wait)?;
            wait + jitter.extra_wait(self.spread(wait), spare)
        } else {
            let wait = self.paced_start(now, patience, jitter) - now;
            if wait > patience { jitter.up_to(patience.min(MAX_COURTESY_WAIT)) } else { wait }
        };
        self.schedule.reserve(now + wait);
        Ok(now + wait)
    }

    /// By all limits at once: which of them a request is subject to is not known before. When nothing
    /// is left, it waits for the next window, and a little longer, so that not all come back together.
    fn paced_start(&self, now: Instant, patience: Duration, jitter: &mut Jitter) -> Instant {
        let (mut earliest, mut apart) = (now, Duration::ZERO);
        for allowance in self.allowances.iter().filter(|_| self.paces) {
            match allowance.pace(&self.schedule, now) {
                RequestPace::Free => {}
                RequestPace::Spaced(gap) => apart = apart.max(gap),
                RequestPace::NextWindow(wait) => {
                    let spare = patience.saturating_sub(wait);
                    let beyond = jitter.extra_wait(allowance.spread(wait), spare);
                    earliest = earliest.max(now + wait + beyond);
                }
            }
        }
        self.schedule.first_free(earliest, apart)
    }

    /// Over how long to come back after a refusal, which does not say by which limit: the one with the
    /// shortest window that the wait may be for.
    fn spread(&self, wait: Duration) -> Duration {
        let windows = self.allowances.iter().filter_map(|allowance| allowance.window_of(wait));
        wait.max(windows.min().unwrap_or_default()) / 4
    }

    /// A call with a turn will not leave.
    pub(crate) fn give_back(&mut self, turn: Instant) {
        self.schedule.give_back(turn);
    }

    /// A request leaves. Says which one it is.
    pub(crate) fn begin_send(&mut self, turn: Option<Instant>, now: Instant) -> u64 {
        self.schedule.begin_send(turn, now)
    }

    /// Until when a refusal holds, if it does.
    pub(crate) fn blocked_until(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|not_before| *not_before > now)
    }

    /// Takes note of the response to a request, by its number.
    pub(crate) fn record_response(&mut self, told: &ServerLimits, number: u64, now: Instant) {
        let hold = told.retry_after.filter(|_| told.is_refused);
        let hold = hold.map(|wait| wait.min(self.max_block));
        if let Some(hold) = hold {
            let until = now.checked_add(hold).or_else(|| now.checked_add(FOR_EVER));
            self.not_before = self.not_before.max(until);
        }
        for allowance in &mut self.allowances {
            allowance.count_exempt(told, number);
        }
        for standing in &told.limits {
            self.record_limit(clipped(standing, hold), now);
        }
    }

    fn record_limit(&mut self, standing: ServerLimit, now: Instant) {
        if let Some(known) = self.allowances.iter_mut().find(|known| known.is_same_limit(&standing))
        {
            return known.update(standing, &self.schedule, now);
        }
        if self.allowances.len() >= MAX_LIMITS {
            let ends = self.allowances.iter().map(ServerAllowance::until).enumerate();
            // What is over, or soon will be, is missed least.
            if let Some((first, _)) = ends.min_by_key(|(_, until)| *until) {
                self.allowances.swap_remove(first);
            }
        }
        self.allowances.push(ServerAllowance::new(standing, &self.schedule, now));
    }

    /// Until when anything holds that it knows, if it does.
    pub(crate) fn known_until(&self, now: Instant) -> Option<Instant> {
        let ends = self.allowances.iter().map(ServerAllowance::until).chain(self.not_before);
        ends.max().filter(|end| *end > now)
    }
}

/// What a refusal says to come back takes precedence over its limits: one that is used up holds no longer.
fn clipped(standing: &ServerLimit, hold: Option<Duration>) -> ServerLimit {
    let mut standing = standing.clone();
    if let Some(hold) = hold.filter(|_| standing.remaining == 0) {
        standing.reset = Some(standing.lasts_for().map_or(hold, |it| it.min(hold)));
    }
    standing
}

/// More limits than a server has for one client.
const MAX_LIMITS: usize = 16;
/// How long those wait at most who cannot wait for their turn: enough to slow a loop down.
const MAX_COURTESY_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
#[path = "pacer_tests.rs"]
mod tests;
