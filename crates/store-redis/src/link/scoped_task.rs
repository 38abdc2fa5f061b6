//! A background task that ends with its owner.

use parking_lot::Mutex;
use tokio::task::AbortHandle;

/// At most one task, started when needed, and aborted when this is dropped.
#[derive(Debug, Default)]
pub(super) struct ScopedTask(Mutex<Option<AbortHandle>>);

impl ScopedTask {
    /// Starts a task on the current runtime, replacing the previous one.
    pub(super) fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        let handle = tokio::spawn(task).abort_handle();
        if let Some(before) = self.0.lock().replace(handle) {
            before.abort();
        }
    }
}

impl Drop for ScopedTask {
    fn drop(&mut self) {
        if let Some(handle) = self.0.get_mut().take() {
            handle.abort();
        }
    }
}
