//! A timeout that restarts whenever there is progress.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer that is restarted often and expires rarely. The tokio timer is moved only when it fires too
/// early, so that a restart costs only a read of the clock.
#[derive(Debug, Default)]
pub struct StallTimer {
    /// The deadline; `None` until the next wait begins.
    until: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl StallTimer {
    /// A timer with a given first deadline.
    pub fn until(until: Instant) -> Self {
        Self { until: Some(until), sleep: None }
    }

    /// Called on progress: the next poll begins a new wait.
    pub fn restart(&mut self) {
        self.until = None;
    }

    /// The deadline of the current wait.
    pub const fn due(&self) -> Option<Instant> {
        self.until
    }

    /// Resolves after `span` without progress.
    pub fn poll_expired(&mut self, span: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let until = *self.until.get_or_insert_with(|| Instant::now() + span);
        self.poll_until(until, cx)
    }

    /// Resolves at a time of the caller's choice.
    pub(crate) fn poll_until(&mut self, until: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if until < sleep.deadline() {
            sleep.as_mut().reset(until);
        }
        while sleep.as_mut().poll(cx).is_ready() {
            if Instant::now() >= until {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(until);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test(start_paused = true)]
    async fn the_timer_runs_from_the_last_progress() {
        let (mut timer, start) = (StallTimer::default(), Instant::now());
        let second = Duration::from_secs(1);
        poll_fn(|cx| timer.poll_expired(second, cx)).await;
        assert_eq!(start.elapsed(), second);
        // It has expired, and is used again with a shorter span and with a longer one.
        for span in [second / 2, second * 3] {
            timer.restart();
            let start = Instant::now();
            poll_fn(|cx| timer.poll_expired(span, cx)).await;
            assert_eq!(start.elapsed(), span);
        }
        // Progress in between begins a new wait.
        timer.restart();
        let waiting =
            tokio::time::timeout(second / 2, poll_fn(|cx| timer.poll_expired(second, cx)));
        assert!(waiting.await.is_err());
        timer.restart();
        let start = Instant::now();
        poll_fn(|cx| timer.poll_expired(second, cx)).await;
        assert_eq!(start.elapsed(), second);
    }
}
