//! Requests whose cost depends on the response: their work continues even if the client disconnects.
//! Otherwise a client that disconnects in time would pay nothing for the work of the service.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;

/// Whether a request was sent to its service: from then on the service may work on it.
#[derive(Debug, Default)]
pub(crate) struct SentFlag(AtomicBool);

impl SentFlag {
    /// The request is about to be sent.
    pub(crate) fn set_sent(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// No byte of the request was sent after all.
    pub(crate) fn clear_sent(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Work on a request. If it is dropped after the request was sent, it continues in a task of its own.
///
/// The timeouts of the service bound its duration, and `max_requests` bounds the number of such tasks:
/// the request counts as under way until the end.
pub(crate) struct DetachableWork<T: Send + 'static> {
    /// `None` once the work is done.
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    sent_flag: Arc<SentFlag>,
}

impl<T: Send + 'static> DetachableWork<T> {
    pub(crate) fn new(
        sent_flag: Arc<SentFlag>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Self { work: Some(Box::pin(work)), sent_flag }
    }
}

impl<T: Send + 'static> Future for DetachableWork<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Only a broken executor polls again after the end.
        let Some(work) = &mut self.work else { return Poll::Pending };
        let done = ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(done)
    }
}

impl<T: Send + 'static> Drop for DetachableWork<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take().filter(|_| self.sent_flag.is_sent())
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move { drop(work.await) });
        }
    }
}

impl<T: Send + 'static> fmt::Debug for DetachableWork<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachableWork").field("sent_flag", &self.sent_flag).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    /// Whether work that waits for a signal finishes after it is dropped.
    async fn dropped(is_sent: bool) -> bool {
        let (resume, resumed) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let sent_flag = Arc::new(SentFlag::default());
        let mut work = Box::pin(DetachableWork::new(Arc::clone(&sent_flag), async move {
            let _ = resumed.await;
            let _ = end.send(());
        }));
        std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_pending())).await;
        if is_sent {
            sent_flag.set_sent();
        }
        drop(work);
        let _ = resume.send(());
        ended.await.is_ok()
    }

    #[tokio::test]
    async fn work_goes_on_only_if_its_request_has_left() {
        assert!(dropped(true).await);
        assert!(!dropped(false).await);
    }
}
