//! What a connection is doing, and for how long it may.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_server::Config;

use crate::upstream::Patience;

/// Shared by a connection's socket, its requests and its deadline, which all run in one task or,
/// with HTTP/2, on one worker.
#[derive(Clone, Debug)]
pub(crate) struct Progress(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Requests that are being answered.
    busy: AtomicU32,
    /// Counts steps, so that every step begins a new wait.
    steps: AtomicU32,
    /// Whether some of a head has come, or nothing yet.
    in_head: AtomicBool,
    /// Whether the client does not take what it is sent.
    is_stuck: AtomicBool,
}

/// A request that is being answered, until this is dropped.
#[derive(Debug)]
pub(crate) struct Busy(Progress);

impl Progress {
    pub(crate) fn new() -> Self {
        let progress = Self(Arc::default());
        progress.head_begins(true);
        progress
    }

    pub(crate) fn begin(&self) -> Busy {
        self.0.busy.fetch_add(1, Ordering::Relaxed);
        self.step();
        Busy(self.clone())
    }

    /// Some of a head has come, or all of it.
    pub(super) fn head_begins(&self, begins: bool) {
        if self.0.in_head.swap(begins, Ordering::Relaxed) != begins {
            self.step();
        }
    }

    /// The client takes what it is sent, or does not.
    pub(super) fn is_stuck(&self, is_stuck: bool) {
        // Nearly always nothing changes.
        if is_stuck || self.0.is_stuck.load(Ordering::Relaxed) {
            self.0.is_stuck.store(is_stuck, Ordering::Relaxed);
            if !is_stuck {
                self.step();
            }
        }
    }

    fn step(&self) {
        self.0.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// How long the present state may last. Services have timeouts of their own.
    fn allowed(&self, config: &Config) -> Option<Duration> {
        if self.0.busy.load(Ordering::Relaxed) > 0 {
            let is_stuck = self.0.is_stuck.load(Ordering::Relaxed);
            is_stuck.then_some(config.idle_timeout)
        } else if self.0.in_head.load(Ordering::Relaxed) {
            Some(config.header_timeout)
        } else {
            Some(config.idle_timeout)
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.busy.fetch_sub(1, Ordering::Relaxed);
        self.0.step();
    }
}

/// Resolves when a connection has been in one state for longer than it may.
#[derive(Debug)]
pub(super) struct Deadline {
    progress: Progress,
    seen: u32,
    patience: Patience,
}

impl Deadline {
    pub(super) fn new(progress: Progress) -> Self {
        Self { progress, seen: 0, patience: Patience::default() }
    }

    /// To be polled after the connection, so that it sees what has come of that.
    pub(super) fn poll(&mut self, config: &Config, cx: &mut Context<'_>) -> Poll<()> {
        let steps = self.progress.0.steps.load(Ordering::Relaxed);
        if self.seen != steps {
            self.seen = steps;
            self.patience.moved();
        }
        match self.progress.allowed(config) {
            Some(span) => self.patience.poll_over(span, cx),
            None => Poll::Pending,
        }
    }
}
