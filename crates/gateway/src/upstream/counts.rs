//! Counts the results of the requests to a service, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use super::UpstreamFailure;

/// The result of a request to a service, as a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamResult {
    /// A response came, whatever its status.
    Answered,
    Connect,
    Closed,
    Malformed,
    Timeout,
    /// The client aborted the request, or sent one that cannot be forwarded.
    Client,
    Full,
    /// The client had used its share of slots.
    Share,
    /// The client was too slow.
    Slow,
    Unwell,
}

impl UpstreamResult {
    pub(crate) const ALL: [Self; 10] = [
        Self::Answered,
        Self::Connect,
        Self::Closed,
        Self::Malformed,
        Self::Timeout,
        Self::Client,
        Self::Full,
        Self::Share,
        Self::Slow,
        Self::Unwell,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Answered => "ok",
            Self::Connect => "connect",
            Self::Closed => "closed",
            Self::Malformed => "malformed",
            Self::Timeout => "timeout",
            Self::Client => "client",
            Self::Full => "full",
            Self::Share => "share",
            Self::Slow => "slow",
            Self::Unwell => "unwell",
        }
    }
}

impl From<&UpstreamFailure> for UpstreamResult {
    fn from(failure: &UpstreamFailure) -> Self {
        match failure {
            UpstreamFailure::Connect(_) => Self::Connect,
            UpstreamFailure::Closed => Self::Closed,
            UpstreamFailure::Malformed(_) => Self::Malformed,
            UpstreamFailure::Timeout => Self::Timeout,
            UpstreamFailure::Client | UpstreamFailure::Host(_) => Self::Client,
            UpstreamFailure::Full => Self::Full,
            UpstreamFailure::Share => Self::Share,
            UpstreamFailure::Slow => Self::Slow,
            UpstreamFailure::Unwell => Self::Unwell,
        }
    }
}

/// The number of requests to a service, by result.
#[derive(Debug, Default)]
pub(crate) struct UpstreamCounts([AtomicU64; UpstreamResult::ALL.len()]);

impl UpstreamCounts {
    /// Begins a request. Its result is counted when the guard is dropped.
    pub(crate) const fn begin(&self) -> UpstreamResultGuard<'_> {
        UpstreamResultGuard { counts: self, result: UpstreamResult::Client }
    }

    pub(crate) fn of(&self, result: UpstreamResult) -> u64 {
        self.0.get(result as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

/// A request without a result yet. If it is dropped before [`finish`](Self::finish), the client has gone.
#[derive(Debug)]
pub(crate) struct UpstreamResultGuard<'c> {
    counts: &'c UpstreamCounts,
    result: UpstreamResult,
}

impl UpstreamResultGuard<'_> {
    pub(crate) fn finish<T>(mut self, result: &Result<T, UpstreamFailure>) {
        self.result =
            result.as_ref().map_or_else(UpstreamResult::from, |_| UpstreamResult::Answered);
    }
}

impl Drop for UpstreamResultGuard<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.counts.0.get(self.result as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_counted_once() {
        let counts = UpstreamCounts::default();
        counts.begin().finish(&Ok(()));
        counts.begin().finish::<()>(&Err(UpstreamFailure::Timeout));
        drop(counts.begin());
        for (index, result) in UpstreamResult::ALL.into_iter().enumerate() {
            assert_eq!(result as usize, index);
            let expected = matches!(
                result,
                UpstreamResult::Answered | UpstreamResult::Timeout | UpstreamResult::Client
            );
            assert_eq!(counts.of(result), u64::from(expected), "{}", result.name());
        }
    }
}
