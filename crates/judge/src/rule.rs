//! The rule that a limiter says it keeps.

use std::fmt;

use tidegate_core::algorithm::SteppedWindow;
use tidegate_core::{AlgorithmKind, Limit, Quota, QuotaError};

/// What a limiter promises about each key.
///
/// ```
/// use tidegate_core::AlgorithmKind;
/// use tidegate_judge::JudgedRule;
///
/// let rule = JudgedRule::new(AlgorithmKind::TokenBucket, &"100/minute burst 20".parse()?)?;
/// assert_eq!(rule.to_string(), "token-bucket 100/minute burst 20");
/// assert_eq!(rule.capacity(), 20);
/// # Ok::<(), tidegate_core::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct JudgedRule {
    quota: Quota,
    pub(crate) promise: RulePromise,
    pub(crate) limit: u64,
    /// In microseconds.
    pub(crate) window: i64,
}

/// How the limit is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RulePromise {
    /// At most the limit in any window, and nothing else.
    AtMost,
    /// Windows that begin at multiples of their length since the epoch.
    FixedWindow,
    /// Windows that begin whenever the limiter likes: with a request, or at an offset of its own.
    LooseFixedWindow,
    SlidingWindow,
    SlidingLog,
    SteppedWindow {
        steps: u64,
    },
    TokenBucket {
        burst: u64,
    },
}

impl JudgedRule {
    /// The rule of one of our algorithms; windows are aligned to the epoch.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the algorithm does not accept the quota.
    pub fn new(kind: AlgorithmKind, quota: &Quota) -> Result<Self, QuotaError> {
        let limit = Limit::new(kind, quota)?;
        let promise = match kind {
            AlgorithmKind::FixedWindow => RulePromise::FixedWindow,
            AlgorithmKind::SlidingWindow => RulePromise::SlidingWindow,
            AlgorithmKind::SlidingLog => RulePromise::SlidingLog,
            AlgorithmKind::SteppedWindow => {
                RulePromise::SteppedWindow { steps: SteppedWindow::STEPS }
            }
            AlgorithmKind::TokenBucket => RulePromise::TokenBucket { burst: limit.capacity() },
            _ => return Err(QuotaError::refused(kind, "there is no judge for this algorithm")),
        };
        Self::with(promise, quota)
    }

    /// "At most the limit in any window": the only promise of some limiters. They may deny whatever
    /// they like.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] for a limit of 0.
    pub fn at_most(quota: &Quota) -> Result<Self, QuotaError> {
        Self::with(RulePromise::AtMost, quota)
    }

    fn with(promise: RulePromise, quota: &Quota) -> Result<Self, QuotaError> {
        if quota.limit() == 0 {
            return Err(QuotaError::refused(quota, "expected a limit of 1 or more"));
        }
        let window = quota.window().as_micros().cast_signed();
        Ok(Self { quota: *quota, promise, limit: quota.limit(), window })
    }

    /// The same rule with windows that begin whenever the limiter likes. Only a fixed window can be
    /// judged like this.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] for another algorithm.
    pub fn with_loose_windows(self) -> Result<Self, QuotaError> {
        match self.promise {
            RulePromise::FixedWindow => Ok(Self { promise: RulePromise::LooseFixedWindow, ..self }),
            _ => Err(QuotaError::refused(self, "only a fixed-window can begin at any time")),
        }
    }

    /// The same rule with another number of steps.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the rule has no steps, or cannot have as many.
    pub fn with_steps(self, steps: u64) -> Result<Self, QuotaError> {
        match self.promise {
            RulePromise::SteppedWindow { .. } => {
                Limit::new(AlgorithmKind::SteppedWindow, &self.quota)?.with_steps(steps)?;
                Ok(Self { promise: RulePromise::SteppedWindow { steps }, ..self })
            }
            _ => Err(QuotaError::refused(self, "only a stepped-window has steps")),
        }
    }

    /// The most that can pass at one instant.
    pub const fn capacity(&self) -> u64 {
        match self.promise {
            RulePromise::TokenBucket { burst } => burst,
            _ => self.limit,
        }
    }

    /// The quota.
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// After this long, an admitted call cannot matter any more; in microseconds.
    pub fn period(&self) -> i64 {
        match self.promise {
            RulePromise::SlidingWindow => self.window.saturating_mul(2),
            RulePromise::SteppedWindow { steps } => {
                self.window + self.window / steps.max(1).cast_signed() + 1
            }
            RulePromise::TokenBucket { burst } => {
                let micros = i128::from(burst) * i128::from(self.window);
                i64::try_from(micros / i128::from(self.limit.max(1))).unwrap_or(i64::MAX)
            }
            _ => self.window,
        }
    }

    /// When a unit that was taken at `at` is free again, for the rules that keep a log of units.
    pub(crate) fn leaves(&self, at: i64) -> i64 {
        match self.promise {
            RulePromise::SteppedWindow { steps } => self.step_end(at, steps) + self.window,
            _ => at.saturating_add(self.window),
        }
    }

    /// The end of the step that contains `at`. If a window cannot be divided into whole microseconds,
    /// some steps are longer than others by one.
    fn step_end(&self, at: i64, steps: u64) -> i64 {
        let (window, steps) = (i128::from(self.window), i128::from(steps));
        let start = self.window_start(at);
        let step = i128::from(at - start) * steps / window;
        let end = ((step + 1) * window + steps - 1) / steps;
        start + i64::try_from(end).unwrap_or(self.window)
    }

    /// The start of the aligned window that contains `at`.
    pub(crate) const fn window_start(&self, at: i64) -> i64 {
        at.saturating_sub(at.rem_euclid(self.window))
    }

    /// The most that the rule admits within a span, if it can be said in one number.
    pub(crate) fn most_within(&self, span: i64) -> Option<u64> {
        let limit = i128::from(self.limit);
        let windows = i128::from(span / self.window);
        let most = match self.promise {
            RulePromise::TokenBucket { burst } => {
                i128::from(burst) + limit * i128::from(span) / i128::from(self.window)
            }
            RulePromise::AtMost | RulePromise::SlidingLog | RulePromise::SteppedWindow { .. } => {
                limit * (windows + 1)
            }
            RulePromise::LooseFixedWindow => limit * (windows + 2),
            RulePromise::FixedWindow | RulePromise::SlidingWindow => return None,
        };
        u64::try_from(most).ok()
    }
}

impl fmt::Display for JudgedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.promise {
            RulePromise::AtMost => {
                return write!(
                    f,
                    "at most {} in any {}",
                    self.limit,
                    self.quota.window().as_period()
                );
            }
            RulePromise::FixedWindow => AlgorithmKind::FixedWindow,
            RulePromise::LooseFixedWindow => {
                return write!(
                    f,
                    "fixed-window {}, with windows that begin at any time",
                    self.quota
                );
            }
            RulePromise::SlidingWindow => AlgorithmKind::SlidingWindow,
            RulePromise::SlidingLog => AlgorithmKind::SlidingLog,
            RulePromise::SteppedWindow { .. } => AlgorithmKind::SteppedWindow,
            RulePromise::TokenBucket { .. } => AlgorithmKind::TokenBucket,
        };
        write!(f, "{kind} {}", self.quota)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rules_that_have_windows_or_steps_take_others() {
        let rule = |kind| JudgedRule::new(kind, &"10/minute".parse().unwrap()).unwrap();
        assert!(rule(AlgorithmKind::FixedWindow).with_loose_windows().is_ok());
        assert!(rule(AlgorithmKind::SteppedWindow).with_steps(6).is_ok());
        for kind in [AlgorithmKind::SlidingLog, AlgorithmKind::TokenBucket] {
            assert!(rule(kind).with_loose_windows().is_err());
            assert!(rule(kind).with_steps(6).is_err());
        }
        assert!(rule(AlgorithmKind::SteppedWindow).with_steps(61).is_err());
    }

    #[test]
    fn a_unit_of_a_step_leaves_with_its_step() {
        let rule = JudgedRule::new(AlgorithmKind::SteppedWindow, &"10/minute".parse().unwrap());
        let rule = rule.unwrap().with_steps(6).unwrap();
        let second = 1_000_000;
        assert_eq!(rule.leaves(3 * second), 70 * second);
        assert_eq!(rule.leaves(10 * second), 80 * second);
        assert_eq!(rule.leaves(10 * second - 1), 70 * second);
    }
}
