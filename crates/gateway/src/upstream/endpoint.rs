//! One address of a service: how busy it is, and how it has been doing.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate::config::gateway;
use tokio::time::Instant;

use super::UpstreamFailure;
use super::endpoint_log::EndpointLog;

/// An address, and what is known of it. Shared by all workers.
#[derive(Debug)]
pub(crate) struct UpstreamEndpoint {
    pub(crate) address: gateway::UpstreamUrl,
    /// As a `Host` field has it.
    pub(crate) authority: http::HeaderValue,
    /// Tells connections apart in pools.
    pub(crate) number: u64,
    under_way: AtomicUsize,
    /// Failures without a success in between.
    failures: AtomicU32,
    /// Milliseconds since `since`: until then it is given a rest.
    rests_until: AtomicU64,
    since: Instant,
    /// Whose turn it is to take note of a failure.
    turn: Mutex<()>,
    /// Whether it says that it is well, where it is asked.
    is_well: AtomicBool,
    news: EndpointLog,
}

impl UpstreamEndpoint {
    pub(crate) fn new(upstream: &str, address: gateway::UpstreamUrl) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let authority = http::HeaderValue::try_from(address.authority());
        Self {
            authority: authority.unwrap_or(http::HeaderValue::from_static("localhost")),
            news: EndpointLog::new(upstream, &address),
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

    /// It has answered.
    pub(crate) fn record_success(&self) {
        // Nearly always nothing changes, and nothing is written.
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
            self.rests_until.store(0, Ordering::Relaxed);
            self.news.report_regained();
        }
    }

    /// It has not. After some failures in a row it is given a rest, each time a longer one.
    ///
    /// What fails during a rest was under way before it, and is a part of the same incident.
    pub(crate) fn record_failure(&self, why: &UpstreamFailure) {
        // One at a time: workers notice an incident together.
        let _turn = self.turn.lock();
        if self.is_resting() {
            return;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if let Some(beyond) = failures.checked_sub(TOLERATED) {
            let rest = FIRST_REST.saturating_mul(1 << beyond.min(16)).min(LONGEST_REST);
            let until = self.since.elapsed().saturating_add(rest).as_millis();
            self.rests_until.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Relaxed);
            self.news.report_lost(why);
        }
    }

    /// What it said when it was asked.
    pub(crate) fn set_health(&self, is_well: bool) {
        if self.is_well.swap(is_well, Ordering::Relaxed) != is_well {
            self.news.report_health(is_well);
        }
    }

    /// What it said does not count any more.
    pub(crate) fn forget_health(&self) {
        self.is_well.store(true, Ordering::Relaxed);
    }

    /// Whether it said that it is not well.
    pub(crate) fn is_unwell(&self) -> bool {
        !self.is_well.load(Ordering::Relaxed)
    }

    /// Whether it has failed so often that it was given a rest, and has not answered since.
    pub(crate) fn is_failing(&self) -> bool {
        self.failures.load(Ordering::Relaxed) >= TOLERATED
    }

    /// Whether it is given a rest.
    pub(crate) fn is_resting(&self) -> bool {
        let until = self.rests_until.load(Ordering::Relaxed);
        until > 0 && self.since.elapsed().as_millis() < u128::from(until)
    }
}

const TOLERATED: u32 = 3;
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> UpstreamEndpoint {
        UpstreamEndpoint::new("up", gateway::UpstreamUrl::read("http://127.0.0.1:1").unwrap())
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
