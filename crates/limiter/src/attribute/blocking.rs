//! Waits for a future in functions that are not async.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tidegate_store::BlockingGuard;
use tokio::runtime::{Builder, EnterGuard, Handle};

/// Runs a future to completion on this thread, even on a runtime's thread.
///
/// Timers and connections belong to a runtime in the background, never to the caller's: if the caller is
/// its runtime's only thread, that runtime makes no progress while the caller waits here. `None` if the
/// background thread cannot be started.
pub(super) fn wait<F: Future>(future: F) -> Option<F::Output> {
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
pub(super) struct BackgroundFuture<F>(pub(super) F);

impl<F: Future + Unpin> Future for BackgroundFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _context = in_background();
        Pin::new(&mut self.0).poll(cx)
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
