//! Waiting for an answer, but not for ever.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate_store::StoreError;
use tokio::time::Timeout;

use crate::RedisStore;
use crate::batch::Answer;
use crate::courier::{Courier, Place};
use crate::queue::{Asked, Queue};

pin_project_lite::pin_project! {
    /// The answer to a request, or why there is none.
    ///
    /// Not an `async fn`: that would hold what it waits for twice, and decisions are moved about on
    /// their way here.
    pub(crate) struct Answering<'a> {
        #[pin]
        pub(crate) asked: Option<Timeout<Asked>>,
        // Why nobody was asked.
        pub(crate) refused: Option<StoreError>,
        pub(crate) store: &'a RedisStore,
        pub(crate) place: Place,
        pub(crate) queue: &'a Queue<Arc<Courier>>,
        pub(crate) patience: Duration,
    }
}

impl Future for Answering<'_> {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let this = self.project();
        if let Some(refused) = this.refused.take() {
            return Poll::Ready(Err(refused));
        }
        // Only a broken executor polls again after a refusal.
        let Some(asked) = this.asked.as_pin_mut() else { return Poll::Pending };
        let answer = ready!(asked.poll(context));
        let late = |_| Err(this.store.timed_out(*this.place, this.queue, *this.patience));
        Poll::Ready(answer.unwrap_or_else(late))
    }
}
