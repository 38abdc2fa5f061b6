//! Frames of HTTP/2 that ask for nothing: a few are usual, and a flood of them is an attack.

use std::time::Duration;

use tokio::time::Instant;

/// What a client may still send that is neither a request nor a body. Work earns more of it: requests,
/// their bodies, and what it is sent, since whoever gets much has much to acknowledge.
#[derive(Debug)]
pub(super) struct GlitchBudget {
    credit: u32,
    /// What is written and has earned nothing yet, in bytes.
    written: usize,
    /// What is written only because the client asked for an acknowledgement, in bytes.
    ack_bytes: usize,
    /// When time has last earned something.
    refilled: Instant,
}

impl GlitchBudget {
    pub(super) fn new() -> Self {
        Self { credit: MOST, written: 0, ack_bytes: 0, refilled: Instant::now() }
    }

    /// A frame that asks for nothing. Returns whether it is one too many.
    pub(super) fn add(&mut self) -> bool {
        if self.credit == 0 {
            self.refill();
        }
        match self.credit.checked_sub(1) {
            Some(left) => self.credit = left,
            None => return true,
        }
        false
    }

    /// Only now is the clock looked at: hardly any client ever gets here.
    #[cold]
    fn refill(&mut self) {
        let ticks = self.refilled.elapsed().as_millis() / EVERY.as_millis();
        self.earn(usize::try_from(ticks).unwrap_or(usize::MAX));
        if ticks > 0 {
            self.refilled = Instant::now();
        }
    }

    /// The frame has to be acknowledged with so many bytes, which earn nothing.
    pub(super) const fn expect_ack(&mut self, bytes: usize) {
        self.ack_bytes = self.ack_bytes.saturating_add(bytes);
    }

    /// A request has begun.
    pub(super) fn request(&mut self) {
        self.earn(FOR_A_REQUEST);
    }

    /// So much of a body comes.
    pub(super) fn body(&mut self, bytes: usize) {
        self.earn(bytes / BODY);
    }

    /// So much was sent to the client.
    pub(super) fn wrote(&mut self, bytes: usize) {
        let acknowledged = bytes.min(self.ack_bytes);
        self.ack_bytes = self.ack_bytes.saturating_sub(acknowledged);
        self.written = self.written.saturating_add(bytes.saturating_sub(acknowledged));
        self.earn(self.written / WRITTEN);
        self.written %= WRITTEN;
    }

    fn earn(&mut self, credit: usize) {
        let credit = u32::try_from(credit).unwrap_or(u32::MAX);
        self.credit = self.credit.saturating_add(credit).min(MOST);
    }
}

/// More than an honest client ever sends at once.
const MOST: u32 = 4_096;
/// Some pings a second are a matter of taste.
const EVERY: Duration = Duration::from_millis(100);
/// A priority, a cancellation, a window for its response.
const FOR_A_REQUEST: usize = 16;
/// Bytes of a body that earn one.
const BODY: usize = 64;
/// Bytes sent that earn one: the smallest frame of a body earns two, for the two windows it moves.
const WRITTEN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// How many more there may be at once.
    fn left(glitches: &mut GlitchBudget) -> u32 {
        (0..u32::MAX).find(|_| glitches.add()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn time_earns_a_few_and_work_earns_many() {
        let mut glitches = GlitchBudget::new();
        assert_eq!(left(&mut glitches), MOST);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(left(&mut glitches), 10);
        glitches.request();
        glitches.body(6_400);
        assert_eq!(left(&mut glitches), 116);
        tokio::time::advance(Duration::from_secs(100_000)).await;
        assert_eq!(left(&mut glitches), MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gets_a_body_may_acknowledge_every_piece_of_it() {
        let mut glitches = GlitchBudget::new();
        for _ in 0..100_000 {
            // A frame with one byte, and both windows are moved.
            glitches.wrote(10);
            assert!(!glitches.add() && !glitches.add());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn acknowledgements_earn_nothing() {
        let mut glitches = GlitchBudget::new();
        for _ in 0..MOST {
            assert!(!glitches.add());
            glitches.expect_ack(17);
            glitches.wrote(17);
        }
        assert!(glitches.add());
    }
}
