//! The known state of one server, or of another scope whose requests share a limit.

use tokio::time::Instant;

use crate::AdaptiveThrottle;
use crate::pacer::Pacer;
use crate::rules::ClientRules;
use crate::server_limits::ServerLimits;
use crate::throttle::AcceptanceWindow;

/// What is known of a server.
#[derive(Debug)]
pub(crate) struct KnownServer {
    pub(crate) pacer: Pacer,
    pub(crate) acceptance_window: AcceptanceWindow,
    throttle: Option<AdaptiveThrottle>,
}

impl KnownServer {
    pub(crate) fn new(rules: &ClientRules) -> Self {
        let pacer = Pacer::new(rules.paces, rules.max_block);
        Self { pacer, acceptance_window: AcceptanceWindow::default(), throttle: rules.throttle }
    }

    /// Records that a request is sent, with its turn if it had one. Returns its number; `None` if a
    /// refusal holds.
    pub(crate) fn try_begin_send(&mut self, turn: Option<Instant>, now: Instant) -> Option<u64> {
        if self.pacer.blocked_until(now).is_some() {
            return None;
        }
        if let Some(rule) = &self.throttle {
            self.acceptance_window.record_sent(now, rule);
        }
        Some(self.pacer.begin_send(turn, now))
    }

    /// Records the response to the request with this number.
    pub(crate) fn record_response(&mut self, response: &ServerLimits, number: u64, now: Instant) {
        self.pacer.record_response(response, number, now);
        if let Some(rule) = self.throttle.as_ref().filter(|_| !response.is_refused) {
            self.acceptance_window.record_accepted(now, rule);
        }
    }

    /// The end of everything that is known and still holds.
    pub(crate) fn known_until(&self, now: Instant) -> Option<Instant> {
        self.pacer.known_until(now).max(self.acceptance_window.until(now))
    }
}
