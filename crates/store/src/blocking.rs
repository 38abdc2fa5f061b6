//! Threads that stand still until they are answered.

use std::cell::Cell;
use std::marker::PhantomData;

/// Says, as long as it is there, that futures are polled on this thread for a caller that stands
/// still, with the timers and tasks of a runtime in the background.
///
/// The thread may be the one that drives another runtime. So a store that has connections asks over
/// those of the runtime in the background then, and never over those that it has made elsewhere:
/// their answers might be read by nobody until the caller goes on.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct BlockingGuard {
    before: bool,
    /// It belongs to this thread.
    _here: PhantomData<*const ()>,
}

impl BlockingGuard {
    /// From now on.
    pub fn enter() -> Self {
        Self { before: IS_BLOCKING.replace(true), _here: PhantomData }
    }

    /// Whether it is so on this thread.
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
