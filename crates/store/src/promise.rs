//! A result that may be there at once.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// A result that is there already, or the future that brings it.
///
/// Whoever can answer at once does so without a future. Callers that cannot wait look for
/// [`Promise::Ready`]; all others write `.await`. A future that is dropped before it was polled has
/// changed nothing.
///
/// ```
/// use std::future::{Ready, ready};
/// use tidegate_store::Promise;
///
/// async fn sum(one: Promise<u64, Ready<u64>>, other: Promise<u64, Ready<u64>>) -> u64 {
///     one.await + other.await
/// }
/// assert_eq!(Promise::<_, Ready<u64>>::Ready(1).ready(), Some(1));
/// assert_eq!(Promise::<u64, _>::Later(ready(1)).ready(), None);
/// # let _ = sum(Promise::Ready(1), Promise::Later(ready(1)));
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a promise may do nothing unless it is awaited"]
pub enum Promise<T, F> {
    /// The result.
    Ready(T),
    /// What the result has to wait for.
    Later(F),
}

impl<T, F> Promise<T, F> {
    /// The result, if it is there. Otherwise nothing has happened, and nothing will.
    #[inline]
    pub fn ready(self) -> Option<T> {
        match self {
            Self::Ready(result) => Some(result),
            Self::Later(_) => None,
        }
    }
}

impl<T, F: Future<Output = T>> IntoFuture for Promise<T, F> {
    type Output = T;
    type IntoFuture = PromiseFuture<T, F>;

    #[inline]
    fn into_future(self) -> PromiseFuture<T, F> {
        match self {
            Self::Ready(result) => PromiseFuture::Ready { result: Some(result) },
            Self::Later(future) => PromiseFuture::Later { future },
        }
    }
}

pin_project! {
    /// The future of a [`Promise`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    #[project = PromiseProjection]
    pub enum PromiseFuture<T, F> {
        #[doc(hidden)]
        Ready { result: Option<T> },
        #[doc(hidden)]
        Later { #[pin] future: F },
    }
}

impl<T, F: Future<Output = T>> Future for PromiseFuture<T, F> {
    type Output = T;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match self.project() {
            // As with every future, nothing comes after the result.
            PromiseProjection::Ready { result } => result.take().map_or(Poll::Pending, Poll::Ready),
            PromiseProjection::Later { future } => future.poll(cx),
        }
    }
}
