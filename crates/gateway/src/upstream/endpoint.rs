//! One address of a service: its load, its failures, and its health.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::UpstreamFailure;
use super::endpoint_log::EndpointLog;
use crate::config::{UpstreamScheme, UpstreamUrl};

/// An address of a service and its state. Shared by all workers.
#[derive(Debug)]
pub(crate) struct UpstreamEndpoint {
    pub(crate) address: UpstreamUrl,
    /// The address in the format of a `Host` field.
    pub(crate) authority: http::HeaderValue,
    /// The key of this address in pools.
    pub(crate) number: u64,
    under_way: AtomicUsize,
    /// Consecutive failures.
    failures: AtomicU32,
    /// The end of its rest, in milliseconds after `since`; zero for none.
    rests_until: AtomicU64,
    since: Instant,
    /// Serializes the recording of failures.
    turn: Mutex<()>,
    /// The result of the last health check, if there are any.
    is_well: AtomicBool,
    log: EndpointLog,
}

impl UpstreamEndpoint {
    /// Whether requests go to this address over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.address.scheme == UpstreamScheme::Https
    }

    pub(crate) fn new(upstream: &str, address: UpstreamUrl) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let authority = http::HeaderValue::try_from(address.authority());
        Self {
            authority: authority.unwrap_or(http::HeaderValue::from_static("localhost")),
            log: EndpointLog::new(upstream, &address),
            address,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            under_way: AtomicUsize::new(0),
            failures: AtomicU32::new(0),
            rests_until: AtomicU64::new(0),
            since: Instant::now(),
            turn: Mutex::new(()),
            is_well: AtomicBool::new(true),
        }
    }

    pub(crate) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// Requests that are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Records a response.
    pub(crate) fn record_success(&self) {
        // Nearly always nothing changes, and nothing is written.
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
            self.rests_until.store(0, Ordering::Relaxed);
            self.log.report_regained();
        }
    }

    /// Records a failure. After some consecutive failures the address rests, each time for longer.
    ///
    /// A request that fails during a rest does not count: it was usually sent before the rest, and belongs
    /// to the same incident.
    pub(crate) fn record_failure(&self, why: &UpstreamFailure) {
        // One at a time: all workers notice an incident together, and it must count once.
        let _turn = self.turn.lock();
        if self.is_resting() {
            return;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if let Some(beyond) = failures.checked_sub(TOLERATED) {
            let rest = FIRST_REST.saturating_mul(1 << beyond.min(16)).min(LONGEST_REST);
            let until = self.since.elapsed().saturating_add(rest).as_millis();
            self.rests_until.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Relaxed);
            self.log.report_lost(why);
        }
    }

    /// Sets the result of a health check.
    pub(crate) fn set_health(&self, is_well: bool) {
        if self.is_well.swap(is_well, Ordering::Relaxed) != is_well {
            self.log.report_health(is_well);
        }
    }

    /// Discards the result of the last health check.
    pub(crate) fn forget_health(&self) {
        self.is_well.store(true, Ordering::Relaxed);
    }

    /// Whether the last health check failed.
    pub(crate) fn is_unwell(&self) -> bool {
        !self.is_well.load(Ordering::Relaxed)
    }

    /// Whether it has failed often enough for a rest, and has not responded since.
    pub(crate) fn is_failing(&self) -> bool {
        self.failures.load(Ordering::Relaxed) >= TOLERATED
    }

    /// Whether it rests: other addresses are preferred.
    pub(crate) fn is_resting(&self) -> bool {
        let until = self.rests_until.load(Ordering::Relaxed);
        until > 0 && self.since.elapsed().as_millis() < u128::from(until)
    }
}

/// The number of consecutive failures that begins the first rest.
const TOLERATED: u32 = 3;
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> UpstreamEndpoint {
        UpstreamEndpoint::new("up", UpstreamUrl::read("http://127.0.0.1:1").unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn rests_get_longer_and_end_with_a_success() {
        let endpoint = endpoint();
        endpoint.record_failure(&UpstreamFailure::Closed);
        endpoint.record_failure(&UpstreamFailure::Closed);
        assert!(!endpoint.is_resting());
        let mut rests = Vec::new();
        for _ in 0..9 {
            endpoint.record_failure(&UpstreamFailure::Closed);
            let start = Instant::now();
            while endpoint.is_resting() {
                tokio::time::advance(Duration::from_millis(500)).await;
            }
            rests.push(start.elapsed().as_secs());
        }
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(endpoint.is_failing());
        endpoint.record_success();
        assert!(!endpoint.is_failing());
        endpoint.record_failure(&UpstreamFailure::Closed);
        assert!(!endpoint.is_resting());
    }

    #[tokio::test(start_paused = true)]
    async fn many_failures_of_one_incident_are_one_rest() {
        let endpoint = endpoint();
        for _ in 0..100 {
            endpoint.record_failure(&UpstreamFailure::Closed);
        }
        tokio::time::advance(FIRST_REST).await;
        assert!(!endpoint.is_resting());
        for _ in 0..100 {
            endpoint.record_failure(&UpstreamFailure::Closed);
        }
        tokio::time::advance(FIRST_REST).await;
        assert!(endpoint.is_resting());
        tokio::time::advance(FIRST_REST).await;
        assert!(!endpoint.is_resting());
    }
}
