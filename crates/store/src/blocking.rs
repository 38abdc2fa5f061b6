//! Marks threads that block until the store answers.

use std::cell::Cell;
use std::marker::PhantomData;

/// While it exists, futures are polled on this thread for a blocked caller, with the timers and tasks of
/// a background runtime.
///
/// The thread may be the one that drives another runtime. So a store with connections then uses those of
/// the background runtime, and never those that it made elsewhere: their answers might not be read until
/// the caller continues.
///
/// Guards nest: the thread stays marked until the outermost one is dropped.
///
/// ```
/// use tidegate_store::BlockingGuard;
///
/// let outer = BlockingGuard::enter();
/// drop(BlockingGuard::enter());
/// assert!(BlockingGuard::is_active());
/// drop(outer);
/// assert!(!BlockingGuard::is_active());
/// ```
#[derive(Debug)]
#[must_use = "the mark ends when the guard is dropped"]
pub struct BlockingGuard {
    before: bool,
    /// Not `Send`: the mark belongs to this thread.
    _here: PhantomData<*const ()>,
}

impl BlockingGuard {
    /// Marks this thread until the guard is dropped.
    pub fn enter() -> Self {
        Self { before: IS_BLOCKING.replace(true), _here: PhantomData }
    }

    /// Whether this thread is marked.
    #[inline]
    pub fn is_active() -> bool {
        IS_BLOCKING.get()
    }
}

impl Drop for BlockingGuard {
    fn drop(&mut self) {
        IS_BLOCKING.set(self.before);
    }
}

thread_local! {
    static IS_BLOCKING: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lasts_until_the_outermost_ends_and_is_of_one_thread() {
        let outer = BlockingGuard::enter();
        drop(BlockingGuard::enter());
        assert!(BlockingGuard::is_active());
        std::thread::spawn(|| assert!(!BlockingGuard::is_active())).join().unwrap();
        drop(outer);
        assert!(!BlockingGuard::is_active());
    }
}
