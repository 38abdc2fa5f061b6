//! Waits for a future in functions that are not async.

use std::future::Future;
#[cfg(feature = "macros")]
use std::pin::Pin;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tidegate_core::Cost;
use tidegate_policy::Key;
use tidegate_store::{BlockingGuard, Store};
use tokio::runtime::{Builder, EnterGuard, Handle};

use crate::{Decision, DecisionSource, Limiter};

/// Runs a future to completion on this thread, even on a runtime's thread.
///
/// Timers and connections belong to a runtime in the background, never to the caller's: if the caller is
/// its runtime's only thread, that runtime makes no progress while the caller waits here. `None` if the
/// background thread cannot be started.
pub(crate) fn wait<F: Future>(future: F) -> Option<F::Output> {
    let _context = in_background()?;
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return Some(output),
            Poll::Pending => thread::park(),
        }
    }
}

/// A future that uses the background runtime's connections and timers, whichever runtime polls it.
#[cfg(feature = "macros")]
pub(crate) struct BackgroundFuture<F>(pub(crate) F);

#[cfg(feature = "macros")]
impl<F: Future + Unpin> Future for BackgroundFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _context = in_background();
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<S: Store> Limiter<S> {
    /// [`check`](Limiter::check) for threads that are not async: waits for the store, at most until its deadline.
    ///
    /// It works on any thread, with a runtime or without one, because a background thread drives connections that
    /// only blocked threads use. But a thread that runs async tasks should not wait: its other tasks wait too. With
    /// a store in memory nothing waits; [`check_now`](Limiter::check_now) does the same.
    ///
    /// ```
    /// use tidegate::{AnyStore, Limiter};
    ///
    /// let store = AnyStore::open("memory", "")?;
    /// let limiter = Limiter::builder().name("imports").limit("1/hour").store(store).build()?;
    /// assert!(limiter.check_blocking("alice").is_allowed());
    /// assert!(!limiter.check_blocking("alice").is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_blocking<K: Key + Sync + ?Sized>(&self, key: &K) -> Decision {
        self.check_n_blocking(key, Cost::ONE)
    }

    /// [`check_n`](Limiter::check_n) for threads that are not async; see
    /// [`check_blocking`](Limiter::check_blocking).
    pub fn check_n_blocking<K: Key + Sync + ?Sized>(
        &self,
        key: &K,
        cost: impl Into<Cost>,
    ) -> Decision {
        let cost = cost.into();
        self.try_check_n(key, cost)
            .or_else(|| wait(self.check_n(key, cost)))
            .unwrap_or_else(|| Decision::without_verdicts(false, DecisionSource::Fallback))
    }
}

/// Wakes a thread that waits for a future.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Lets futures use the timers, tasks and connections of the background runtime until the guard drops.
fn in_background() -> Option<(EnterGuard<'static>, BlockingGuard)> {
    Some((background()?.enter(), BlockingGuard::enter()))
}

/// A runtime with a thread of its own.
fn background() -> Option<&'static Handle> {
    static BACKGROUND: OnceLock<Option<Handle>> = OnceLock::new();
    BACKGROUND.get_or_init(start).as_ref()
}

fn start() -> Option<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(std::future::pending::<()>());
    thread::Builder::new().name("tidegate".to_owned()).spawn(run).ok()?;
    Some(handle)
}
