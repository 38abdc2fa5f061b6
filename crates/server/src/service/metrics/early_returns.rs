//! Detects early returns: denied clients that retry before their `Retry-After` has passed.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::{Fingerprint, Span, Timestamp};

/// Remembers which clients have to wait, in a table of fixed size: half a megabyte. A client is one
/// key of one policy.
///
/// Each entry of the table holds one client, by sixteen bits of its key; a denial of another client
/// replaces it. So with more waiting clients than entries some early returns are missed, and one in
/// 65,536 other clients of an entry is mistaken for the waiting one. The count is good enough to
/// judge clients as a whole.
#[derive(Debug)]
pub(crate) struct EarlyReturns {
    /// Packed [`WaitRecord`]s. Not the cells of an overflowing store.
    cells: Box<[AtomicU64]>,
}

/// A denied client, the time of the denial, and the wait. Packed into one word, so that no lock is
/// needed.
#[derive(Clone, Copy, Debug)]
struct WaitRecord {
    /// Sixteen bits of the client's key.
    tag: u16,
    /// The time of the denial in milliseconds; wraps after seven weeks.
    at: u32,
    /// The wait in steps of 64 ms, rounded down, at most 70 minutes.
    wait: u16,
}

impl EarlyReturns {
    pub(crate) fn new() -> Self {
        Self { cells: (0..CELLS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Records the denial of a client that has to wait. Returns whether the client was still
    /// waiting after an earlier denial; then the earlier wait stays as it is.
    ///
    /// A request soon after the earlier denial does not count as early: it was probably in flight
    /// already, and its client cannot have known.
    pub(crate) fn record_denial(&self, who: Fingerprint, wait: Span, now: Timestamp) -> bool {
        let Some(cell) = self.cells.get(who.high() as usize % CELLS) else { return false };
        let (tag, at) = (who.low() as u16, (now.as_micros() / 1_000) as u32);
        let last = WaitRecord::unpack(cell.load(Ordering::Relaxed));
        let since = at.wrapping_sub(last.at);
        if last.tag == tag && since < u32::from(last.wait) * STEP {
            return since >= GRACE;
        }
        let wait = u16::try_from(wait.as_micros() / 1_000 / u64::from(STEP)).unwrap_or(u16::MAX);
        cell.store(WaitRecord { tag, at, wait }.pack(), Ordering::Relaxed);
        false
    }
}

impl WaitRecord {
    fn pack(self) -> u64 {
        u64::from(self.tag) << 48 | u64::from(self.at) << 16 | u64::from(self.wait)
    }

    const fn unpack(word: u64) -> Self {
        Self { tag: (word >> 48) as u16, at: (word >> 16) as u32, wait: word as u16 }
    }
}

const CELLS: usize = 1 << 16;
/// The unit of a wait, in milliseconds.
const STEP: u32 = 64;
/// How soon after a denial a request does not count as early, in milliseconds: longer than most
/// requests are in flight.
const GRACE: u32 = 250;

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Fingerprint = Fingerprint::new(7, 1);
    const NEIGHBOUR: Fingerprint = Fingerprint::new(7, 2);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000 + millis * 1_000)
    }

    #[test]
    fn who_comes_before_the_time_is_early_and_who_waits_is_not() {
        let early = EarlyReturns::new();
        let wait = Span::from_secs(10);
        assert!(!early.record_denial(ALICE, wait, at(0)));
        assert!(!early.record_denial(ALICE, wait, at(100)), "under way at the same time");
        assert!(early.record_denial(ALICE, wait, at(1_000)));
        assert!(early.record_denial(ALICE, Span::from_secs(1), at(9_900)));
        assert!(!early.record_denial(ALICE, wait, at(10_000)), "waited, and was unlucky");
        assert!(early.record_denial(ALICE, wait, at(19_000)));
    }

    #[test]
    fn a_neighbour_in_the_cell_is_somebody_else() {
        let early = EarlyReturns::new();
        let wait = Span::from_secs(10);
        assert!(!early.record_denial(ALICE, wait, at(0)));
        assert!(!early.record_denial(NEIGHBOUR, wait, at(1_000)));
        assert!(!early.record_denial(ALICE, wait, at(2_000)), "the neighbour has the cell");
        assert!(early.record_denial(ALICE, wait, at(3_000)));
    }

    #[test]
    fn a_very_long_wait_and_none_are_no_problem() {
        let early = EarlyReturns::new();
        assert!(!early.record_denial(ALICE, Span::from_days(400), at(0)));
        assert!(early.record_denial(ALICE, Span::ZERO, at(4_000_000)));
        assert!(!early.record_denial(ALICE, Span::ZERO, at(4_300_000)));
        assert!(!early.record_denial(ALICE, Span::ZERO, at(4_300_500)));
    }
}
