//! Decides when the next request to a server can be sent, purely from its responses and the time.

use std::time::Duration;

use tokio::time::Instant;

use crate::allowance::{FOR_EVER, RequestPace, ServerAllowance};
use crate::backoff::Jitter;
use crate::send_schedule::SendSchedule;
use crate::server_limits::{ServerLimit, ServerLimits};

/// The known limits of one server, and the schedule of requests to it.
#[derive(Debug)]
pub(crate) struct Pacer {
    /// Whether requests are paced before any is refused.
    paces: bool,
    /// How long one refusal holds at most.
    max_block: Duration,
    /// Until when a refusal holds.
    not_before: Option<Instant>,
    /// One for each limit that the server has named.
    allowances: Vec<ServerAllowance>,
    schedule: SendSchedule,
}

impl Pacer {
    pub(crate) fn new(paces: bool, max_block: Duration) -> Self {
        let (allowances, schedule) = (Vec::new(), SendSchedule::default());
        Self { paces, max_block, not_before: None, allowances, schedule }
    }

    /// Reserves a turn: when a request that arrives now can be sent. The call then
    /// [sends](Self::begin_send) the request or [gives the turn back](Self::give_back).
    ///
    /// If a refusal requires a longer wait than `patience`, there is no turn; the error is that wait.
    /// Pacing is a courtesy and refuses no call: a call that cannot wait for a paced turn is sent after a
    /// short random wait instead, so that such calls are not all sent together.
    pub(crate) fn reserve(
        &mut self,
        now: Instant,
        patience: Duration,
        jitter: &mut Jitter,
    ) -> Result<Instant, Duration> {
        let wait = if let Some(until) = self.blocked_until(now) {
            let wait = until - now;
            // Only the server's wait can exceed the patience; jitter uses what is left of it.
            let spare = patience.checked_sub(wait).ok_or(wait)?;
            wait + jitter.extra_wait(self.spread(wait), spare)
        } else {
            let wait = self.paced_start(now, patience, jitter) - now;
            if wait > patience { jitter.up_to(patience.min(MAX_COURTESY_WAIT)) } else { wait }
        };
        self.schedule.reserve(now + wait);
        Ok(now + wait)
    }

    /// The turn by all limits together, because it is unknown which of them will count the request. If
    /// nothing remains, the turn is in the next window, plus jitter, so that not all clients return
    /// together.
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

    /// The time over which clients spread their return after a refusal. A refusal does not name its
    /// limit, so the shortest window that the wait can be for counts.
    fn spread(&self, wait: Duration) -> Duration {
        let windows = self.allowances.iter().filter_map(|allowance| allowance.window_of(wait));
        wait.max(windows.min().unwrap_or_default()) / 4
    }

    /// Gives back the turn of a call that will not be sent.
    pub(crate) fn give_back(&mut self, turn: Instant) {
        self.schedule.give_back(turn);
    }

    /// Records that a request is sent. Returns its number.
    pub(crate) fn begin_send(&mut self, turn: Option<Instant>, now: Instant) -> u64 {
        self.schedule.begin_send(turn, now)
    }

    /// The end of a refusal that still holds.
    pub(crate) fn blocked_until(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|not_before| *not_before > now)
    }

    /// Records the response to the request with this number.
    pub(crate) fn record_response(&mut self, response: &ServerLimits, number: u64, now: Instant) {
        let hold = response.retry_after.filter(|_| response.is_refused);
        let hold = hold.map(|wait| wait.min(self.max_block));
        if let Some(hold) = hold {
            let until = now.checked_add(hold).or_else(|| now.checked_add(FOR_EVER));
            self.not_before = self.not_before.max(until);
        }
        for allowance in &mut self.allowances {
            allowance.count_exempt(response, number);
        }
        for limit in &response.limits {
            self.record_limit(clipped(limit, hold), now);
        }
    }

    fn record_limit(&mut self, limit: ServerLimit, now: Instant) {
        if let Some(known) = self.allowances.iter_mut().find(|known| known.is_same_limit(&limit)) {
            return known.update(limit, &self.schedule, now);
        }
        if self.allowances.len() >= MAX_LIMITS {
            let ends = self.allowances.iter().map(ServerAllowance::until).enumerate();
            // The allowance that ends first is missed least.
            if let Some((first, _)) = ends.min_by_key(|(_, until)| *until) {
                self.allowances.swap_remove(first);
            }
        }
        self.allowances.push(ServerAllowance::new(limit, &self.schedule, now));
    }

    /// The end of everything that it knows and that still holds.
    pub(crate) fn known_until(&self, now: Instant) -> Option<Instant> {
        let ends = self.allowances.iter().map(ServerAllowance::until).chain(self.not_before);
        ends.max().filter(|end| *end > now)
    }
}

/// The wait of a refusal takes precedence over its limits: an exhausted limit holds no longer than the
/// refusal.
fn clipped(limit: &ServerLimit, hold: Option<Duration>) -> ServerLimit {
    let mut limit = limit.clone();
    if let Some(hold) = hold.filter(|_| limit.remaining == 0) {
        limit.reset = Some(limit.lasts_for().map_or(hold, |reset| reset.min(hold)));
    }
    limit
}

/// The most limits that are tracked: more than a server has for one client.
const MAX_LIMITS: usize = 16;
/// The longest wait of a call that cannot wait for its paced turn: enough to slow a loop down.
const MAX_COURTESY_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
