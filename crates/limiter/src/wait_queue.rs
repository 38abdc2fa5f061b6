//! Waiting in line: the leaky bucket that smooths instead of refusing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::{Charge, Cost, Fingerprint, Span};
use tidegate_policy::{Key, PolicyCharges};
use tidegate_store::Store;
use tokio::time::{Instant, sleep, timeout};

use crate::{DecisionReason, Limiter};

/// How long [`Limiter::until_ready`] waits, and in how long a line.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Limiter, WaitLimits};
///
/// let limiter = Limiter::builder()
///     .limit("10/second burst 1")
///     .patience(WaitLimits { max_wait: Duration::from_secs(2), max_queue: 50 })
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

/// Why a caller did not get through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The line is full.
    #[error("{0} callers are waiting already")]
    QueueFull(usize),
    /// It has taken as long as the caller is willing to wait, in line or because the store was slow.
    #[error("not ready within {0:?}")]
    TooLong(Duration),
    /// It would take this long, which is longer than the caller is willing to wait.
    #[error("it would take {}, which is longer than it may wait", Span::from(*.0).roughly())]
    Later(Duration),
    /// The limiter will never allow it, however long the caller waits.
    #[error("waiting does not help: {0}")]
    Never(DecisionReason),
}

impl<S: Store> Limiter<S> {
    /// Waits until `key` may do something that costs one unit, and takes it.
    ///
    /// Callers of the same key wait in line, first come, first served; nobody overtakes. A caller
    /// that would have to wait for longer than [`WaitLimits`] allows is told so at once, if that is
    /// known ([`WaitError::Later`]). Callers of [`check`](Limiter::check), and other processes on a shared store, do not
    /// stand in this line.
    ///
    /// Dropping the future leaves the line and takes nothing. Timers are tokio's, which tick in
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
        cost: Cost,
    ) -> Result<(), WaitError> {
        let mut name = String::new();
        let charges = self.charges(key, cost, &mut name);
        let Some(subject) = charges.first().map(Charge::subject) else {
            return Ok(());
        };
        let place = self.lines.join(subject, self.patience.max_queue)?;
        let WaitLimits { max_wait, .. } = self.patience;
        // Past the end of time: never.
        let give_up_at = Instant::now().checked_add(max_wait);
        let in_turn = async {
            // Tokio's mutex is fair: turns come in the order of arrival.
            let _turn = place.turn().await;
            self.decide_at_head(&charges, give_up_at).await
        };
        timeout(max_wait, in_turn).await.unwrap_or(Err(WaitError::TooLong(max_wait)))
    }

    async fn decide_at_head(
        &self,
        charges: &PolicyCharges<'_>,
        give_up_at: Option<Instant>,
    ) -> Result<(), WaitError> {
        loop {
            let decision = self.decide_charges(charges).await;
            if decision.is_allowed() {
                return Ok(());
            }
            let Some(wait) = decision.retry_after() else {
                return Err(WaitError::Never(decision.reason()));
            };
            let ready_at = Instant::now().checked_add(wait.into());
            if give_up_at.is_some_and(|give_up_at| ready_at.is_none_or(|at| at > give_up_at)) {
                return Err(WaitError::Later(wait.into()));
            }
            sleep(wait.into()).await;
        }
    }
}

/// The lines of all keys that callers are waiting for: first come, first served.
///
/// [`Limiter::until_ready`] has its own. A caller that settles charges by a plan, and would rather
/// wait than be refused, joins one of these first.
#[derive(Debug, Default)]
pub struct WaitQueues {
    lines: Mutex<HashMap<Fingerprint, Arc<WaitQueue>>>,
}

#[derive(Debug, Default)]
struct WaitQueue {
    turn: tokio::sync::Mutex<()>,
    callers: AtomicUsize,
}

/// A place in a line, until it is dropped. The last one to leave takes the line away.
#[derive(Debug)]
pub struct WaitQueuePlace<'a> {
    lines: &'a WaitQueues,
    key: Fingerprint,
    line: Arc<WaitQueue>,
}

/// Being at the head of a line, until it is dropped.
#[derive(Debug)]
#[must_use = "a turn that is dropped is over"]
pub struct WaitQueueTurn<'a> {
    _held: tokio::sync::MutexGuard<'a, ()>,
}

impl WaitQueuePlace<'_> {
    /// Waits until everybody who came before has left.
    pub async fn turn(&self) -> WaitQueueTurn<'_> {
        WaitQueueTurn { _held: self.line.turn.lock().await }
    }
}

impl WaitQueues {
    /// Joins the line of a key, unless this many are already waiting there.
    pub fn join(
        &self,
        key: Fingerprint,
        max_queue: usize,
    ) -> Result<WaitQueuePlace<'_>, WaitError> {
        let mut lines = self.lines.lock();
        let line = Arc::clone(lines.entry(key).or_default());
        // Changed only under the lock of all lines.
        let callers = line.callers.load(Ordering::Relaxed);
        // The one at the head is being served; the others queue.
        if callers > max_queue {
            return Err(WaitError::QueueFull(callers - 1));
        }
        line.callers.store(callers + 1, Ordering::Relaxed);
        Ok(WaitQueuePlace { lines: self, key, line })
    }
}

impl Drop for WaitQueuePlace<'_> {
    fn drop(&mut self) {
        let mut lines = self.lines.lines.lock();
        if self.line.callers.fetch_sub(1, Ordering::Relaxed) == 1 {
            lines.remove(&self.key);
        }
    }
}
