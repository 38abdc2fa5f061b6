//! Log lines about an address of a service: outages and health.

use std::time::Duration;

use parking_lot::Mutex;
use tidegate_server::log::{self, LogLevel};
use tokio::time::Instant;

use super::UpstreamFailure;
use crate::config::UpstreamUrl;

/// Logs when an address begins to fail and when it recovers, and changes of its health.
#[derive(Debug)]
pub(crate) struct EndpointLog {
    upstream: String,
    address: String,
    outage: Mutex<EndpointOutage>,
}

/// Whether an outage was reported, and when.
#[derive(Debug, Default)]
struct EndpointOutage {
    is_lost: bool,
    /// The time of the last report of an outage.
    at: Option<Instant>,
}

impl EndpointLog {
    pub(crate) fn new(upstream: &str, address: &UpstreamUrl) -> Self {
        let (upstream, address) = (upstream.to_owned(), address.to_string());
        Self { upstream, address, outage: Mutex::default() }
    }

    /// Consecutive requests to the address have failed.
    pub(crate) fn report_lost(&self, why: &UpstreamFailure) {
        if self.outage.lock().begin_outage() {
            self.write(LogLevel::Warn, "upstream_lost", &format!("fails: {why}"));
        }
    }

    /// The address has responded again.
    pub(crate) fn report_regained(&self) {
        if self.outage.lock().end_outage() {
            self.write(LogLevel::Info, "upstream_regained", "answers again");
        }
    }

    /// The result of the health check has changed.
    pub(crate) fn report_health(&self, is_well: bool) {
        match is_well {
            true => self.write(LogLevel::Info, "upstream_well", "is healthy again"),
            false => self.write(LogLevel::Warn, "upstream_unwell", "fails its health check"),
        }
    }

    fn write(&self, level: LogLevel, event: &str, what: &str) {
        let Self { upstream, address, .. } = self;
        let message = format!("service {upstream}: {address} {what}");
        log::emit(level, event, &message, &[("upstream", upstream), ("address", address)]);
    }
}

impl EndpointOutage {
    /// Whether to report an outage: once, and not repeatedly if every fourth request succeeds.
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

/// The minimum time between two reports of an outage.
const PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_outage_is_said_once_and_not_too_often() {
        let mut outage = EndpointOutage::default();
        assert!(!outage.end_outage(), "no outage was reported");
        assert!(outage.begin_outage() && !outage.begin_outage());
        tokio::time::advance(PAUSE * 2).await;
        assert!(!outage.begin_outage(), "it is the same outage");
        assert!(outage.end_outage() && !outage.end_outage());
        assert!(outage.begin_outage() && outage.end_outage());
        assert!(!outage.begin_outage(), "that was a moment ago");
        tokio::time::advance(PAUSE).await;
        assert!(outage.begin_outage());
    }
}
