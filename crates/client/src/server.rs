//! One server, or whatever else requests share a limit by.

use tokio::time::Instant;

use crate::Throttle;
use crate::pacer::Pacer;
use crate::rules::Rules;
use crate::throttle::Recent;
use crate::told::Told;

/// What is known of a server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) pacer: Pacer,
    pub(crate) recent: Recent,
    throttle: Option<Throttle>,
}

impl Server {
    pub(crate) fn new(rules: &Rules) -> Self {
        let pacer = Pacer::new(rules.paces, rules.max_block);
        Self { pacer, recent: Recent::default(), throttle: rules.throttle }
    }

    /// A request leaves, by its turn if it had one. Says which one it is; `None` if a refusal holds.
    pub(crate) fn leave(&mut self, turn: Option<Instant>, now: Instant) -> Option<u64> {
        if self.pacer.blocked_until(now).is_some() {
            return None;
        }
        if let Some(rule) = &self.throttle {
            self.recent.sent(now, rule);
        }
        Some(self.pacer.leave(turn, now))
    }

    /// Takes note of the response to a request, by its number.
    pub(crate) fn learn(&mut self, told: &Told, number: u64, now: Instant) {
        self.pacer.learn(told, number, now);
        if let Some(rule) = self.throttle.as_ref().filter(|_| !told.is_refused) {
            self.recent.accepted(now, rule);
        }
    }

    /// Until when anything holds that is known, if it does.
    pub(crate) fn known_until(&self, now: Instant) -> Option<Instant> {
        self.pacer.known_until(now).max(self.recent.until(now))
    }
}
