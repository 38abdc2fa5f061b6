//! HTTP/2 heads that have arrived only in part, and the timeout for the rest of them.
//!
//! While a head is incomplete, no other frame can arrive on its connection, so the timeout also applies
//! while earlier requests are still being answered.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::framing::InboundFraming;

/// The partial head of a connection, if there is one. Shared by the connection's socket and its timer.
#[derive(Clone, Debug, Default)]
pub(super) struct PartialHead(Arc<PartialHeadState>);

#[derive(Debug, Default)]
struct PartialHeadState {
    /// The number of the head that has arrived in part; zero if there is none.
    unfinished: AtomicU32,
    /// The last stream that a request has begun.
    last: AtomicU32,
}

impl PartialHead {
    /// Call this after reading bytes.
    pub(super) fn update(&self, framing: &InboundFraming) {
        self.0.unfinished.store(framing.unfinished().unwrap_or_default(), Ordering::Relaxed);
        self.0.last.store(framing.last_stream(), Ordering::Relaxed);
    }

    /// Whether no head is incomplete.
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
    /// Created on demand: nearly every head arrives in one piece and needs no timer.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl PartialHeadTimer {
    pub(super) const fn new(partial_head: PartialHead, timeout: Duration) -> Self {
        Self { partial_head, timeout, seen: 0, sleep: None }
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

    async fn is_over(timer: &mut PartialHeadTimer) -> bool {
        poll_fn(|cx| Poll::Ready(timer.poll(cx).is_ready())).await
    }

    #[tokio::test(start_paused = true)]
    async fn each_head_has_its_time_and_no_head_has_any() {
        let partial_head = PartialHead::default();
        let mut timer = PartialHeadTimer::new(partial_head.clone(), TIMEOUT);
        for number in [1, 2, 0, 3] {
            partial_head.0.unfinished.store(number, Ordering::Relaxed);
            assert!(!is_over(&mut timer).await);
            tokio::time::advance(TIMEOUT - Duration::from_millis(1)).await;
            assert!(!is_over(&mut timer).await, "{number}");
        }
        tokio::time::advance(Duration::from_millis(2)).await;
        assert!(is_over(&mut timer).await);
        assert!(is_over(&mut timer).await);
    }
}
