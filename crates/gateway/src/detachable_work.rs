//! Requests whose responses tell what they cost: they are seen through even if the client has gone.
//! Otherwise whoever hangs up in time would pay nothing for what the service does.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;

/// Whether a request has left for its service: from then on it may be worked on.
#[derive(Debug, Default)]
pub(crate) struct SentFlag(AtomicBool);

impl SentFlag {
    /// The next thing that happens is that it leaves.
    pub(crate) fn set_sent(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// No byte of it has left after all.
    pub(crate) fn clear_sent(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Work on a request that goes on by itself when nobody waits for it any more, if the request has left.
///
/// The timeouts of the service bound how long it goes on, and `max_requests` how much of it there is:
/// the request counts as under way until the end.
pub(crate) struct DetachableWork<T: Send + 'static> {
    /// Until the end.
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    departure: Arc<SentFlag>,
}

impl<T: Send + 'static> DetachableWork<T> {
    pub(crate) fn new(
        departure: Arc<SentFlag>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Self { work: Some(Box::pin(work)), departure }
    }
}

impl<T: Send + 'static> Future for DetachableWork<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Polled again after its end, which only a broken executor does.
        let Some(work) = &mut self.work else { return Poll::Pending };
        let done = ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(done)
    }
}

impl<T: Send + 'static> Drop for DetachableWork<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take().filter(|_| self.departure.is_sent())
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move { drop(work.await) });
        }
    }
}

impl<T: Send + 'static> fmt::Debug for DetachableWork<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachableWork").field("departure", &self.departure).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    /// Work that waits for a word, and whether it has heard it in the end.
    async fn dropped(has_left: bool) -> bool {
        let (word, heard) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let departure = Arc::new(SentFlag::default());
        let mut work = Box::pin(DetachableWork::new(Arc::clone(&departure), async move {
            let _ = heard.await;
            let _ = end.send(());
        }));
        std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_pending())).await;
        if has_left {
            departure.set_sent();
        }
        drop(work);
        let _ = word.send(());
        ended.await.is_ok()
    }

    #[tokio::test]
    async fn work_goes_on_only_if_its_request_has_left() {
        assert!(dropped(true).await);
        assert!(!dropped(false).await);
    }
}
