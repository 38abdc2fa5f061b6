//! How long to wait for something to move.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer that is set often and rings rarely. It is moved only when it rings too early, so that
/// setting it costs a look at the clock.
#[derive(Debug, Default)]
pub(crate) struct StallTimer {
    /// From when on nobody waits any more; unset while things move.
    until: Option<Instant>,
    bell: Option<Pin<Box<Sleep>>>,
}

impl StallTimer {
    /// For something that has begun to wait before.
    pub(crate) fn until(until: Instant) -> Self {
        Self { until: Some(until), bell: None }
    }

    /// Something has moved: the next wait is a new one.
    pub(crate) fn restart(&mut self) {
        self.until = None;
    }

    /// When that is over, or was.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.until
    }

    /// Resolves when nothing has moved for this long.
    pub(crate) fn poll_expired(&mut self, span: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let until = *self.until.get_or_insert_with(|| Instant::now() + span);
        let bell = self.bell.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if until < bell.deadline() {
            bell.as_mut().reset(until);
        }
        while bell.as_mut().poll(cx).is_ready() {
            if Instant::now() >= until {
                return Poll::Ready(());
            }
            bell.as_mut().reset(until);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test(start_paused = true)]
    async fn it_lasts_from_the_last_move() {
        let (mut patience, start) = (StallTimer::default(), Instant::now());
        let second = Duration::from_secs(1);
        poll_fn(|cx| patience.poll_expired(second, cx)).await;
        assert_eq!(start.elapsed(), second);
        // It has rung, and is used again: with a shorter span, and with a longer one.
        for span in [second / 2, second * 3] {
            patience.restart();
            let start = Instant::now();
            poll_fn(|cx| patience.poll_expired(span, cx)).await;
            assert_eq!(start.elapsed(), span);
        }
        // What moves in between begins the wait anew.
        patience.restart();
        let waiting =
            tokio::time::timeout(second / 2, poll_fn(|cx| patience.poll_expired(second, cx)));
        assert!(waiting.await.is_err());
        patience.restart();
        let start = Instant::now();
        poll_fn(|cx| patience.poll_expired(second, cx)).await;
        assert_eq!(start.elapsed(), second);
    }
}
