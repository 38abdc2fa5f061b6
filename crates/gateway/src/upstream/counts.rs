//! What became of a service's requests.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Failure;

/// What became of a request, as metrics call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A response came, whatever it says.
    Answered,
    Connect,
    Closed,
    Malformed,
    Timeout,
    /// The client went away.
    Client,
    Full,
    /// The client had its share.
    Share,
    /// The client was too slow.
    Slow,
    Unwell,
}

impl Fate {
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

impl From<&Failure> for Fate {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Connect(_) => Self::Connect,
            Failure::Closed => Self::Closed,
            Failure::Garbage(_) => Self::Malformed,
            Failure::Timeout => Self::Timeout,
            Failure::Client => Self::Client,
            Failure::Full => Self::Full,
            Failure::Share => Self::Share,
            Failure::Slow => Self::Slow,
            Failure::Unwell => Self::Unwell,
        }
    }
}

/// How many requests of a service had which fate.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicU64; Fate::ALL.len()]);

impl Counts {
    /// A request begins.
    pub(crate) const fn begin(&self) -> Open<'_> {
        Open { counts: self, fate: Fate::Client }
    }

    pub(crate) fn of(&self, fate: Fate) -> u64 {
        self.0.get(fate as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

/// A request whose fate is open. If it is dropped before it is known, nobody waits any more.
#[derive(Debug)]
pub(crate) struct Open<'c> {
    counts: &'c Counts,
    fate: Fate,
}

impl Open<'_> {
    pub(crate) fn ends<T>(mut self, result: &Result<T, Failure>) {
        self.fate = result.as_ref().map_or_else(Fate::from, |_| Fate::Answered);
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.counts.0.get(self.fate as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_counted_once() {
        let counts = Counts::default();
        counts.begin().ends(&Ok(()));
        counts.begin().ends::<()>(&Err(Failure::Timeout));
        drop(counts.begin());
        for (index, fate) in Fate::ALL.into_iter().enumerate() {
            assert_eq!(fate as usize, index);
            let expected = matches!(fate, Fate::Answered | Fate::Timeout | Fate::Client);
            assert_eq!(counts.of(fate), u64::from(expected), "{}", fate.name());
        }
    }
}
