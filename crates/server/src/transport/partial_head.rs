//! HTTP/2 heads that have arrived in part, and how long that may last.
//!
//! While one is incomplete nothing else can arrive on its connection, whatever else is answered
//! there.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::framing::InboundFraming;

/// Shared by a connection's socket and its deadline.
#[derive(Clone, Debug, Default)]
pub(super) struct PartialHead(Arc<PartialHeadState>);

#[derive(Debug, Default)]
struct PartialHeadState {
    /// The number of the head that has arrived in part; zero for none.
    unfinished: AtomicU32,
    /// The stream of the last one.
    last: AtomicU32,
}

impl PartialHead {
    /// Called after bytes were read.
    pub(super) fn update(&self, framing: &InboundFraming) {
        self.0.unfinished.store(framing.unfinished().unwrap_or_default(), Ordering::Relaxed);
        self.0.last.store(framing.last_stream(), Ordering::Relaxed);
    }

    /// Whether there is none in part.
    pub(super) fn is_none(&self) -> bool {
        self.0.unfinished.load(Ordering::Relaxed) == 0
    }

    /// The last stream that a request has begun.
    pub(super) fn last_stream(&self) -> u32 {
        self.0.last.load(Ordering::Relaxed)
    }
}

/// Resolves when the same head has been incomplete for too long.
#[derive(Debug)]
pub(super) struct PartialHeadTimer {
    partial_head: PartialHead,
    timeout: Duration,
    seen: u32,
    /// Nearly every head arrives in one piece, and needs none.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl PartialHeadTimer {
    pub(super) const fn new(half: PartialHead, timeout: Duration) -> Self {
        Self { partial_head: half, timeout, seen: 0, sleep: None }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let number = self.partial_head.0.unfinished.load(Ordering::Relaxed);
        if number != self.seen {
            self.seen = number;
            self.sleep = (number != 0).then(|| Box::pin(sleep(self.timeout)));
        }
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    async fn is_over(deadline: &mut PartialHeadTimer) -> bool {
        poll_fn(|cx| Poll::Ready(deadline.poll(cx).is_ready())).await
    }

    #[tokio::test(start_paused = true)]
    async fn each_head_has_its_time_and_no_head_has_any() {
        let half = PartialHead::default();
        let mut deadline = PartialHeadTimer::new(half.clone(), TIMEOUT);
        for number in [1, 2, 0, 3] {
            half.0.unfinished.store(number, Ordering::Relaxed);
            assert!(!is_over(&mut deadline).await);
            tokio::time::advance(TIMEOUT - Duration::from_millis(1)).await;
            assert!(!is_over(&mut deadline).await, "{number}");
        }
        tokio::time::advance(Duration::from_millis(2)).await;
        assert!(is_over(&mut deadline).await);
        assert!(is_over(&mut deadline).await);
    }
}
