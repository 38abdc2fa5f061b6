//! One server, or whatever else requests share a limit by.

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

    /// A request leaves, by its turn if it had one. Says which one it is; `None` if a refusal holds.
    pub(crate) fn try_begin_send(&mut self, turn: Option<Instant>, now: Instant) -> Option<u64> {
        if self.pacer.blocked_until(now).is_some() {
            return None;
        }
        if let Some(rule) = &self.throttle {
            self.acceptance_window.record_sent(now, rule);
        }
        Some(self.pacer.begin_send(turn, now))
    }

    /// Takes note of the response to a request, by its number.
    pub(crate) fn record_response(&mut self, told: &ServerLimits, number: u64, now: Instant) {
        self.pacer.record_response(told, number, now);
        if let Some(rule) = self.throttle.as_ref().filter(|_| !told.is_refused) {
            self.acceptance_window.record_accepted(now, rule);
        }
    }

    /// Until when anything holds that is known, if it does.
    pub(crate) fn known_until(&self, now: Instant) -> Option<Instant> {
        self.pacer.known_until(now).max(self.acceptance_window.until(now))
    }
}
