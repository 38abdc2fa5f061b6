//! Clocks: the only place that reads the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_core::{Span, Timestamp};

/// The clock of a store.
///
/// A clock must not go backwards as seen by any one thread, nor between threads that synchronise. If it
/// does, the store stays safe (no request is admitted beyond the limit, and none is denied for much
/// longer than one period), but its answers are stricter than they should be.
///
/// A clock of your own is one function, for example the time of a simulation:
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tidegate::{Clock, Timestamp};
///
/// /// Seconds that a simulation counts.
/// struct Simulated(AtomicU64);
///
/// impl Clock for Simulated {
///     fn now(&self) -> Timestamp {
///         Timestamp::from_secs(self.0.load(Ordering::Relaxed))
///     }
/// }
/// assert_eq!(Simulated(AtomicU64::new(7)).now(), Timestamp::from_secs(7));
/// ```
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The system's monotonic clock, anchored to wall time once, when it is created.
///
/// Setting the wall clock later has no effect: neither an operator nor NTP can reopen a window. It
/// is read through the kernel rather than from the processor's counter, because counters on
/// different cores can disagree, and a limiter that sees time jump back denies too early.
///
/// A reading takes some tens of nanoseconds and never fails. Time that the machine has slept counts on Linux.
///
/// ```
/// use tidegate::{Clock, SystemClock};
///
/// let clock = SystemClock::new();
/// let earlier = clock.now();
/// assert!(clock.now() >= earlier);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    /// The offset from the monotonic clock to wall time, in microseconds.
    ahead: u64,
}

impl SystemClock {
    /// Anchors to the wall clock as it is now.
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn new() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { ahead: Span::from(wall).as_micros().saturating_sub(monotonic_micros()) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.ahead.saturating_add(monotonic_micros()))
    }
}

/// Straight from the kernel: `Instant` costs an eighth more, for its arithmetic on durations.
#[cfg(unix)]
#[inline]
fn monotonic_micros() -> u64 {
    let now = rustix::time::clock_gettime(CLOCK);
    // Neither is ever negative.
    (now.tv_sec as u64).wrapping_mul(1_000_000).wrapping_add(now.tv_nsec as u64 / 1_000)
}

/// On Linux, a clock that also counts while the machine sleeps: a window ends overnight, even on a
/// laptop.
#[cfg(target_os = "linux")]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(all(unix, not(target_os = "linux")))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

#[cfg(not(unix))]
#[allow(clippy::disallowed_methods, reason = "this is the clock")]
fn monotonic_micros() -> u64 {
    static ANCHOR: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    Span::from(ANCHOR.get_or_init(std::time::Instant::now).elapsed()).as_micros()
}

/// Measures how long something takes: for monitoring, never for a decision.
///
/// ```
/// use tidegate::Stopwatch;
///
/// let watch = Stopwatch::start();
/// let nanos = watch.nanos();
/// assert!(nanos <= watch.nanos());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started: u64,
}

impl Stopwatch {
    /// Starts measuring.
    #[inline]
    pub fn start() -> Self {
        Self { started: monotonic_nanos() }
    }

    /// The nanoseconds since the start.
    #[inline]
    pub fn nanos(self) -> u64 {
        monotonic_nanos().saturating_sub(self.started)
    }
}

#[cfg(unix)]
#[inline]
fn monotonic_nanos() -> u64 {
    let now = rustix::time::clock_gettime(CLOCK);
    // Neither is ever negative.
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

#[cfg(not(unix))]
fn monotonic_nanos() -> u64 {
    monotonic_micros().saturating_mul(1_000)
}

/// A clock that stands still until it is moved, for tests. Clones show the same time.
///
/// ```
/// use tidegate::{Clock, ManualClock, Span, Timestamp};
///
/// let clock = ManualClock::at(Timestamp::from_secs(59));
/// let same = clock.clone();
/// clock.advance(Span::from_secs(2));
/// assert_eq!(same.now(), Timestamp::from_secs(61));
/// ```
///
/// With it, a test of a limit needs no sleep and gives the same result on every machine:
///
/// ```
/// use tidegate::{Limiter, ManualClock, MemoryStore, Span};
///
/// let clock = ManualClock::default();
/// let store = MemoryStore::builder().clock(clock.clone()).build();
/// let limiter = Limiter::builder().limit("1/minute").store(store).build()?;
/// assert!(limiter.check_now("alice").is_allowed());
/// let denied = limiter.check_now("alice");
/// clock.advance(denied.retry_after().unwrap());
/// assert!(limiter.check_now("alice").is_allowed());
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    micros: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Timestamp) -> Self {
        let clock = Self::default();
        clock.set(now);
        clock
    }

    /// Sets the time, backwards too.
    ///
    /// A store must bear that, as it must bear a machine whose clock is set back: it gives nobody extra quota.
    pub fn set(&self, now: Timestamp) {
        self.micros.store(now.as_micros(), Ordering::SeqCst);
    }

    /// Moves the clock forward, by a [`Span`] or a [`Duration`](std::time::Duration).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Clock, ManualClock, Timestamp};
    ///
    /// let clock = ManualClock::default();
    /// clock.advance(Duration::from_secs(90));
    /// assert_eq!(clock.now(), Timestamp::from_secs(90));
    /// ```
    pub fn advance(&self, span: impl Into<Span>) {
        self.micros.fetch_add(span.into().as_micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(Ordering::SeqCst))
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_shows_wall_time_and_never_goes_back() {
        let clock = SystemClock::new();
        let first = clock.now();
        assert!(first > Timestamp::from_secs(1_600_000_000), "{first:?}");
        assert!((0..10_000).map(|_| clock.now()).is_sorted());
    }
}
