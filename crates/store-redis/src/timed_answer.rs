//! The future of an answer, with a time limit.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate_store::StoreError;
use tokio::time::Timeout;

use crate::RedisStore;
use crate::batch::RedisAnswer;
use crate::dispatcher::{ClusterSlot, Dispatcher};
use crate::queue::{PendingReply, RedisQueue};

pin_project_lite::pin_project! {
    /// The answer to a request, or why there is none.
    ///
    /// Not an `async fn`: its future would hold the awaited reply twice, and this future is moved
    /// several times before it is polled.
    pub(crate) struct TimedAnswer<'a> {
        #[pin]
        pub(crate) pending: Option<Timeout<PendingReply>>,
        // Why no request was queued.
        pub(crate) refused: Option<StoreError>,
        pub(crate) store: &'a RedisStore,
        pub(crate) place: ClusterSlot,
        pub(crate) queue: &'a RedisQueue<Arc<Dispatcher>>,
        pub(crate) patience: Duration,
    }
}

impl Future for TimedAnswer<'_> {
    type Output = RedisAnswer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<RedisAnswer> {
        let this = self.project();
        if let Some(refused) = this.refused.take() {
            return Poll::Ready(Err(refused));
        }
        // Only a broken executor polls again after a refusal.
        let Some(pending) = this.pending.as_pin_mut() else { return Poll::Pending };
        let answer = ready!(pending.poll(context));
        let late = |_| Err(this.store.timeout_error(*this.place, this.queue, *this.patience));
        Poll::Ready(answer.unwrap_or_else(late))
    }
}
