//! What the log says about an address.

use std::time::Duration;

use parking_lot::Mutex;
use tidegate::config::gateway;
use tidegate_server::log::{self, LogLevel};
use tokio::time::Instant;

use super::UpstreamFailure;

/// Says when an address fails and when it answers again, and the same of its health.
#[derive(Debug)]
pub(crate) struct EndpointLog {
    upstream: String,
    address: String,
    word: Mutex<EndpointOutage>,
}

/// The last word about failures.
#[derive(Debug, Default)]
struct EndpointOutage {
    is_lost: bool,
    /// When that was last said.
    at: Option<Instant>,
}

impl EndpointLog {
    pub(crate) fn new(upstream: &str, address: &gateway::UpstreamUrl) -> Self {
        let (upstream, address) = (upstream.to_owned(), address.to_string());
        Self { upstream, address, word: Mutex::default() }
    }

    /// Requests fail there, one after the other.
    pub(crate) fn report_lost(&self, why: &UpstreamFailure) {
        if self.word.lock().begin_outage() {
            self.write(LogLevel::Warn, "upstream_lost", &format!("fails: {why}"));
        }
    }

    /// One has been answered.
    pub(crate) fn report_regained(&self) {
        if self.word.lock().end_outage() {
            self.write(LogLevel::Info, "upstream_regained", "answers again");
        }
    }

    /// What it says itself, when that has changed.
    pub(crate) fn report_health(&self, is_well: bool) {
        match is_well {
            true => self.write(LogLevel::Info, "upstream_well", "is well again"),
            false => {
                self.write(LogLevel::Warn, "upstream_unwell", "is not well, by its health check")
            }
        }
    }

    fn write(&self, level: LogLevel, event: &str, what: &str) {
        let Self { upstream, address, .. } = self;
        let message = format!("service {upstream}: {address} {what}");
        log::emit(level, event, &message, &[("upstream", upstream), ("address", address)]);
    }
}

impl EndpointOutage {
    /// Whether it is time to say so: once, and not again and again where every fourth request is
    /// answered.
    fn begin_outage(&mut self) -> bool {
        if self.is_lost || self.at.is_some_and(|at| at.elapsed() < PAUSE) {
            return false;
        }
        *self = Self { is_lost: true, at: Some(Instant::now()) };
        true
    }

    fn end_outage(&mut self) -> bool {
        std::mem::take(&mut self.is_lost)
    }
}

const PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_outage_is_said_once_and_not_too_often() {
        let mut word = EndpointOutage::default();
        assert!(!word.end_outage(), "nobody was told that it was lost");
        assert!(word.begin_outage() && !word.begin_outage());
        tokio::time::advance(PAUSE * 2).await;
        assert!(!word.begin_outage(), "it is the same outage");
        assert!(word.end_outage() && !word.end_outage());
        assert!(word.begin_outage() && word.end_outage());
        assert!(!word.begin_outage(), "that was a moment ago");
        tokio::time::advance(PAUSE).await;
        assert!(word.begin_outage());
    }
}
