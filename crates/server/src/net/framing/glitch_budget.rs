//! The budget for HTTP/2 frames that carry neither requests nor bodies: a flood of them is an attack.

use std::time::Duration;

use tokio::time::Instant;

/// How many frames a client can still send that carry neither a request nor a body. Requests and bodies
/// earn more, and so do bytes sent to the client, since it has to acknowledge them.
#[derive(Debug)]
pub(super) struct GlitchBudget {
    credit: u32,
    /// Bytes sent that have not earned anything yet.
    written: usize,
    /// Bytes to be sent only because the client requested an acknowledgement.
    ack_bytes: usize,
    /// When elapsed time was last credited.
    refilled: Instant,
}

impl GlitchBudget {
    pub(super) fn new() -> Self {
        Self { credit: MOST, written: 0, ack_bytes: 0, refilled: Instant::now() }
    }

    /// Counts an overhead frame. Returns whether it exceeds the budget.
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

    /// Credits elapsed time. The clock is read only here: hardly any client uses up its budget.
    #[cold]
    fn refill(&mut self) {
        let ticks = self.refilled.elapsed().as_millis() / EVERY.as_millis();
        self.earn(usize::try_from(ticks).unwrap_or(usize::MAX));
        if ticks > 0 {
            self.refilled = Instant::now();
        }
    }

    /// Expects an acknowledgement of this many bytes, which earn nothing.
    pub(super) const fn expect_ack(&mut self, bytes: usize) {
        self.ack_bytes = self.ack_bytes.saturating_add(bytes);
    }

    /// Credits the start of a request.
    pub(super) fn request(&mut self) {
        self.earn(FOR_A_REQUEST);
    }

    /// Credits this many bytes of a body.
    pub(super) fn body(&mut self, bytes: usize) {
        self.earn(bytes / BODY);
    }

    /// Credits bytes sent to the client, except acknowledgements.
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

/// The largest budget: more than an honest client ever sends in a burst.
const MOST: u32 = 4_096;
/// Time that earns one frame: some clients send a few pings a second.
const EVERY: Duration = Duration::from_millis(100);
/// What a request earns: enough for priorities, a cancellation, and the windows of its response.
const FOR_A_REQUEST: usize = 16;
/// Bytes of a request's body that earn one frame.
const BODY: usize = 64;
/// Bytes sent that earn one frame: the smallest DATA frame earns two, for the two windows to update.
const WRITTEN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses up the budget, and returns how many frames it allowed.
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
            // A frame with one byte, for which both windows are updated.
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
