//! Workers: each is a thread with its own runtime, so that a decision stays on the core where it began.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

thread_local! {
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The number of the worker that this thread belongs to, if any.
pub(crate) fn current() -> Option<usize> {
    CURRENT.get()
}

/// The runtime of a worker that has not started: whatever must belong to it is created first.
pub(crate) struct WorkerRuntime {
    runtime: Runtime,
}

/// The future that a worker runs.
pub type WorkerTask = Pin<Box<dyn Future<Output = ()> + Send>>;

impl WorkerRuntime {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { runtime: Builder::new_current_thread().enable_all().build()? })
    }

    /// Creates something that belongs to the worker's runtime, such as a listener.
    pub(crate) fn within<T>(&self, make: impl FnOnce() -> T) -> T {
        let _entered = self.runtime.enter();
        make()
    }
}

/// The threads of running workers.
pub(crate) struct WorkerThreads {
    threads: Vec<JoinHandle<()>>,
    /// Closes when the last worker ends.
    at_work: mpsc::Receiver<()>,
}

impl WorkerThreads {
    /// Starts one thread per worker; workers are numbered in order.
    pub(crate) fn start(workers: Vec<(WorkerRuntime, WorkerTask)>) -> io::Result<Self> {
        let (working, at_work) = mpsc::channel(1);
        let mut threads = Vec::with_capacity(workers.len());
        for (number, (worker, work)) in workers.into_iter().enumerate() {
            let working = working.clone();
            let thread = thread::Builder::new().name(format!("worker-{number}"));
            threads.push(thread.spawn(move || {
                CURRENT.set(Some(number));
                worker.runtime.block_on(work);
                // Does not wait for blocking tasks, such as a DNS lookup.
                worker.runtime.shutdown_background();
                drop(working);
            })?);
        }
        Ok(Self { threads, at_work })
    }

    /// Waits until all workers have ended. Returns false if one of them panicked.
    pub(crate) async fn join(mut self) -> bool {
        // Nothing is ever sent: the channel closes when the last worker ends, even by a panic.
        while self.at_work.recv().await.is_some() {}
        self.threads.into_iter().all(|thread| thread.join().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn workers_have_numbers_and_other_threads_have_none() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let work = |_| -> (WorkerRuntime, WorkerTask) {
            let seen = Arc::clone(&seen);
            // Spawned tasks stay on their worker, too.
            let look = async move { seen.lock().push(current()) };
            (WorkerRuntime::new().unwrap(), Box::pin(async { tokio::spawn(look).await.unwrap() }))
        };
        let workers = WorkerThreads::start((0..3).map(work).collect()).unwrap();
        assert!(workers.join().await);
        seen.lock().sort_unstable();
        assert_eq!(*seen.lock(), [Some(0), Some(1), Some(2)]);
        assert_eq!(current(), None);
    }
}
