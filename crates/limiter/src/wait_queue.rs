//! Wait queues: callers wait for their turn instead of being denied (a leaky bucket).

#[cfg(feature = "files")]
mod in_line;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::{Charge, Cost, Fingerprint, Span};
use tidegate_policy::Key;
use tidegate_store::Store;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

#[cfg(feature = "files")]
pub use self::in_line::WaitInLine;
use crate::{Decision, DecisionReason, Limiter};

/// The longest wait and the longest queue of [`Limiter::until_ready`].
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Limiter, WaitLimits};
///
/// let limiter = Limiter::builder()
///     .limit("10/second burst 1")
///     .wait_limits(WaitLimits { max_wait: Duration::from_secs(2), max_queue: 50 })
///     .build()?;
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitLimits {
    /// The longest that one caller waits. Defaults to 30 seconds.
    pub max_wait: Duration,
    /// The most callers that wait for one key. Defaults to 1,000.
    pub max_queue: usize,
}

impl Default for WaitLimits {
    fn default() -> Self {
        Self { max_wait: Duration::from_secs(30), max_queue: 1_000 }
    }
}

/// Why a caller that waited was not admitted.
///
/// In none of these cases may the caller go ahead.
///
/// ```
/// use tidegate::{Cost, Limiter, WaitError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Limiter::builder().limit("1/day").build()?;
/// limiter.until_ready("alice").await?;
/// // A day is longer than the thirty seconds that a caller waits by default.
/// assert!(matches!(limiter.until_ready("alice").await, Err(WaitError::Later(_))));
/// let never = limiter.until_ready_n("alice", Cost::new(2)?).await;
/// assert!(matches!(never, Err(WaitError::Never(_))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The queue is full.
    QueueFull(usize),
    /// The longest wait is over, spent in the queue or on a slow store.
    TooLong(Duration),
    /// The caller would have to wait this long, which is more than the longest wait.
    Later(Duration),
    /// The limiter will never allow the request, however long the caller waits.
    Never(DecisionReason),
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull(waiting) => write!(f, "{waiting} callers are waiting already"),
            Self::TooLong(longest) => write!(f, "not ready within {longest:?}"),
            Self::Later(wait) => {
                let wait = Span::from(*wait).roughly();
                write!(f, "the wait would be {wait}, which is longer than allowed")
            }
            Self::Never(reason) => write!(f, "waiting does not help: {reason}"),
        }
    }
}

impl std::error::Error for WaitError {}

impl<S: Store> Limiter<S> {
    /// Waits until `key` may do something that costs one unit, and takes it.
    ///
    /// Callers of the same key wait in a queue, first come, first served; no caller overtakes another. A
    /// caller that would have to wait for longer than [`WaitLimits`] allows fails immediately, if that is
    /// known ([`WaitError::Later`]). Callers of [`check`](Limiter::check), and other processes on a shared
    /// store, are not part of the queue.
    ///
    /// Dropping the future leaves the queue and takes nothing. Timers are tokio's, which tick in
    /// milliseconds: for more than a thousand a second, allow a burst of a few milliseconds' worth.
    ///
    /// ```
    /// use tidegate::Limiter;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // A worker that calls a fragile service every ten milliseconds, and never sooner.
    /// let limiter = Limiter::builder().limit("100/second burst 1").build()?;
    /// for _ in 0..3 {
    ///     limiter.until_ready("fragile-service").await?;
    ///     // ... call it ...
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn until_ready<K: Key + Sync + ?Sized>(&self, key: &K) -> Result<(), WaitError> {
        self.until_ready_n(key, Cost::ONE).await
    }

    /// [`until_ready`](Limiter::until_ready) for something that costs this much.
    pub async fn until_ready_n<K: Key + Sync + ?Sized>(
        &self,
        key: &K,
        cost: impl Into<Cost> + Send,
    ) -> Result<(), WaitError> {
        let mut names = Vec::new();
        let charges = self.charges(key, cost.into(), &mut names);
        let Some(subject) = charges.first().map(Charge::subject) else {
            return Ok(());
        };
        let limits = self.wait_limits;
        let decide = || self.decide_charges(&charges);
        let wait_for =
            |decision: &Decision| decision.retry_after().filter(|_| !decision.is_allowed());
        // The store's time counts too.
        let decided =
            timeout(limits.max_wait, self.queues.in_turn(subject, limits, decide, wait_for));
        let decision = decided.await.unwrap_or(Err(WaitError::TooLong(limits.max_wait)))?;
        match decision.retry_after() {
            _ if decision.is_allowed() => Ok(()),
            Some(wait) => Err(WaitError::Later(wait)),
            None => Err(WaitError::Never(decision.reason())),
        }
    }
}

/// The queues of all keys with waiting callers: first come, first served.
///
/// [`Limiter::until_ready`] has its own queues. Requests to a [`PlanLimiter`](crate::PlanLimiter) wait in
/// queues of their caller's ([`WaitInLine`](crate::WaitInLine)).
#[derive(Debug, Default)]
pub struct WaitQueues {
    queues: Mutex<HashMap<Fingerprint, Arc<WaitQueue>>>,
}

/// The callers that wait for one key.
#[derive(Debug, Default)]
struct WaitQueue {
    turn: tokio::sync::Mutex<()>,
    callers: AtomicUsize,
}

/// A place in a queue until it is dropped. Dropping the last place removes the queue.
#[derive(Debug)]
struct WaitQueuePlace<'a> {
    queues: &'a WaitQueues,
    key: Fingerprint,
    queue: Arc<WaitQueue>,
}

impl WaitQueues {
    /// Waits until all earlier callers of this key have left its queue, and decides: again and again, for
    /// as long as `wait_for` finds a wait after which the next decision may differ and which ends in time.
    /// Returns the last decision.
    ///
    /// # Errors
    ///
    /// [`WaitError::QueueFull`] or [`WaitError::TooLong`] if there is no turn, and so no decision: a decision
    /// could take what the first in the queue waits for.
    pub async fn in_turn<T, F: Future<Output = T>>(
        &self,
        key: Fingerprint,
        limits: WaitLimits,
        decide: impl Fn() -> F,
        wait_for: impl Fn(&T) -> Option<Duration>,
    ) -> Result<T, WaitError> {
        let place = self.join(key, limits.max_queue)?;
        // `None` if the time cannot be represented: never give up then.
        let give_up_at = Instant::now().checked_add(limits.max_wait);
        // Tokio's mutex is fair: turns come in the order of arrival.
        let turn = place.queue.turn.lock();
        let _turn = match give_up_at {
            Some(at) => {
                timeout_at(at, turn).await.map_err(|_| WaitError::TooLong(limits.max_wait))?
            }
            None => turn.await,
        };
        loop {
            let decision = decide().await;
            let next = wait_for(&decision).and_then(|wait| Instant::now().checked_add(wait));
            match next.filter(|next| give_up_at.is_none_or(|give_up_at| *next <= give_up_at)) {
                Some(next) => sleep_until(next).await,
                None => return Ok(decision),
            }
        }
    }

    /// Joins the queue of a key, unless this many callers are already waiting in it.
    fn join(&self, key: Fingerprint, max_queue: usize) -> Result<WaitQueuePlace<'_>, WaitError> {
        let mut queues = self.queues.lock();
        let queue = Arc::clone(queues.entry(key).or_default());
        // Changed only under the lock of all queues.
        let callers = queue.callers.load(Ordering::Relaxed);
        // The caller at the head is being served and does not count as waiting.
        if callers > max_queue {
            return Err(WaitError::QueueFull(callers - 1));
        }
        queue.callers.store(callers + 1, Ordering::Relaxed);
        Ok(WaitQueuePlace { queues: self, key, queue })
    }
}

impl Drop for WaitQueuePlace<'_> {
    fn drop(&mut self) {
        let mut queues = self.queues.queues.lock();
        if self.queue.callers.fetch_sub(1, Ordering::Relaxed) == 1 {
            queues.remove(&self.key);
        }
    }
}
