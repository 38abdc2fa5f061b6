//! What the log says about an address.

use std::time::Duration;

use parking_lot::Mutex;
use tidegate::config::gateway;
use tidegate_server::log::{self, Level};
use tokio::time::Instant;

use super::Failure;

/// Says when an address fails and when it answers again, and the same of its health.
#[derive(Debug)]
pub(crate) struct News {
    upstream: String,
    address: String,
    word: Mutex<Word>,
}

/// The last word about failures.
#[derive(Debug, Default)]
struct Word {
    is_lost: bool,
    /// When that was last said.
    at: Option<Instant>,
}

impl News {
    pub(crate) fn new(upstream: &str, address: &gateway::Endpoint) -> Self {
        let (upstream, address) = (upstream.to_owned(), address.to_string());
        Self { upstream, address, word: Mutex::default() }
    }

    /// Requests fail there, one after the other.
    pub(crate) fn lost(&self, why: &Failure) {
        if self.word.lock().is_lost_now() {
            self.say(Level::Warn, "upstream_lost", &format!("fails: {why}"));
        }
    }

    /// One has been answered.
    pub(crate) fn regained(&self) {
        if self.word.lock().is_regained_now() {
            self.say(Level::Info, "upstream_regained", "answers again");
        }
    }

    /// What it says itself, when that has changed.
    pub(crate) fn health(&self, is_well: bool) {
        match is_well {
            true => self.say(Level::Info, "upstream_well", "is well again"),
            false => self.say(Level::Warn, "upstream_unwell", "is not well, by its health check"),
        }
    }

    fn say(&self, level: Level, event: &str, what: &str) {
        let Self { upstream, address, .. } = self;
        let message = format!("service {upstream}: {address} {what}");
        log::say(level, event, &message, &[("upstream", upstream), ("address", address)]);
    }
}

impl Word {
    /// Whether it is time to say so: once, and not again and again where every fourth request is
    /// answered.
    fn is_lost_now(&mut self) -> bool {
        if self.is_lost || self.at.is_some_and(|at| at.elapsed() < PAUSE) {
            return false;
        }
        *self = Self { is_lost: true, at: Some(Instant::now()) };
        true
    }

    fn is_regained_now(&mut self) -> bool {
        std::mem::take(&mut self.is_lost)
    }
}

const PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_outage_is_said_once_and_not_too_often() {
        let mut word = Word::default();
        assert!(!word.is_regained_now(), "nobody was told that it was lost");
        assert!(word.is_lost_now() && !word.is_lost_now());
        tokio::time::advance(PAUSE * 2).await;
        assert!(!word.is_lost_now(), "it is the same outage");
        assert!(word.is_regained_now() && !word.is_regained_now());
        assert!(word.is_lost_now() && word.is_regained_now());
        assert!(!word.is_lost_now(), "that was a moment ago");
        tokio::time::advance(PAUSE).await;
        assert!(word.is_lost_now());
    }
}
