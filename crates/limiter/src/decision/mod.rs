//! The decision of a limiter: allowed or denied, why, and the numbers to report to the caller.

mod doubles;
#[cfg(feature = "files")]
mod plan_denial;
mod reason;
mod source;

use std::time::Duration;

use tidegate_core::{Charge, Cost, Rule, Span, Verdict, pays};
use tidegate_store::Verdicts;

pub use self::reason::DecisionReason;
pub use self::source::DecisionSource;

/// Whether a request may happen now, and the numbers to report to the caller.
///
/// The numbers come from the tightest enforced limit: the denying limit with the longest wait, or,
/// if none denies, the limit with the smallest share left. [`verdicts`](Decision::verdicts) has the
/// numbers of all limits.
///
/// ```
/// use tidegate::{Limiter, DecisionReason};
///
/// let limiter = Limiter::builder().limit("1/minute burst 1").build()?;
/// let decision = limiter.check_now("alice");
/// assert!(decision.is_allowed());
/// assert_eq!((decision.limit(), decision.remaining()), (Some(1), Some(0)));
///
/// let decision = limiter.check_now("alice");
/// assert_eq!(decision.reason(), DecisionReason::LimitExceeded);
/// if let Some(wait) = decision.retry_after() {
///     println!("denied; try again in {wait:?}");
/// }
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a decision limits nothing unless it is checked"]
pub struct Decision {
    allowed: bool,
    source: DecisionSource,
    verdicts: Verdicts,
    /// One bit per enforced limit: see [`counts`](Decision::counts).
    enforced: u32,
    /// When to try again if no verdict has a wait.
    retry_after: Option<Span>,
    /// One bit per verdict that is a penalty for an earlier denial.
    blocked: u32,
}

impl Decision {
    /// The decision about charges of `rules`. `settle` adds a verdict for each rule and returns whether
    /// the request passes.
    #[inline(always)]
    pub fn of_rules(
        rules: &[Rule],
        source: DecisionSource,
        settle: impl FnOnce(&mut Verdicts) -> bool,
    ) -> Self {
        let mut decision = Self::without_verdicts(false, source);
        decision.fill_by_rules(rules, settle);
        decision
    }

    /// [`of_rules`](Decision::of_rules) into an existing decision without verdicts, which saves a move.
    #[inline(always)]
    pub(crate) fn fill_by_rules(
        &mut self,
        rules: &[Rule],
        settle: impl FnOnce(&mut Verdicts) -> bool,
    ) {
        self.allowed = settle(&mut self.verdicts);
        for (index, rule) in rules.iter().enumerate() {
            self.enforced |= u32::from(rule.enforced) << (index % 32);
        }
    }

    /// [`of_rules`](Decision::of_rules) for charges of several policies.
    pub fn of_charges(
        charges: &[Charge<'_>],
        source: DecisionSource,
        settle: impl FnOnce(&mut Verdicts) -> bool,
    ) -> Self {
        let mut decision = Self::without_verdicts(false, source);
        let allowed = settle(&mut decision.verdicts);
        decision.fill_outcome(charges, allowed);
        decision
    }

    /// Completes a decision that already has its verdicts.
    #[inline]
    pub(crate) fn fill_outcome(&mut self, charges: &[Charge<'_>], allowed: bool) {
        self.allowed = allowed;
        for (index, charge) in charges.iter().enumerate() {
            self.enforced |= u32::from(charge.rule().enforced) << (index % 32);
        }
    }

    /// A decision without verdicts: no limit applied, or no store could answer.
    #[inline]
    pub fn without_verdicts(allowed: bool, source: DecisionSource) -> Self {
        Self {
            allowed,
            source,
            verdicts: Verdicts::new(),
            enforced: 0,
            retry_after: None,
            blocked: 0,
        }
    }

    /// A denial by the limits at the indices `closed` because the store did not answer.
    pub(crate) fn unavailable(closed: impl Iterator<Item = usize>, retry_after: Span) -> Self {
        Self {
            retry_after: Some(retry_after),
            enforced: closed.fold(0, |bits, index| bits | bit(index)),
            ..Self::without_verdicts(false, DecisionSource::Fallback)
        }
    }

    /// Whether the request may happen.
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// The capacity of the tightest limit.
    ///
    /// For a token bucket, that is its burst. `None` if no enforced limit applied.
    pub fn limit(&self) -> Option<u64> {
        self.tightest().map(|verdict| verdict.limit)
    }

    /// What is left of the tightest limit.
    ///
    /// It is the largest cost that would pass now. `None` if no enforced limit applied.
    pub fn remaining(&self) -> Option<u64> {
        self.tightest().map(|verdict| verdict.remaining)
    }

    /// When to try again: exact, unless another request takes the units first. `None` if the request
    /// was allowed, and if it never will be.
    ///
    /// ```
    /// use tidegate::{Limiter, ManualClock, MemoryStore};
    ///
    /// let clock = ManualClock::default();
    /// let store = MemoryStore::builder().clock(clock.clone()).build();
    /// let limiter = Limiter::builder().limit("3/minute").store(store).build()?;
    /// while limiter.check_now("alice").is_allowed() {}
    /// let wait = limiter.check_now("alice").retry_after().unwrap();
    /// clock.advance(wait);
    /// assert!(limiter.check_now("alice").is_allowed());
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_span().map(Into::into)
    }

    /// [`retry_after`](Self::retry_after), in the unit of verdicts.
    #[doc(hidden)]
    pub fn retry_span(&self) -> Option<Span> {
        if self.allowed {
            return self.retry_after;
        }
        self.tightest().map_or(self.retry_after, |verdict| verdict.retry_after)
    }

    /// When the tightest limit is full again, if no other request comes.
    pub fn reset_after(&self) -> Option<Duration> {
        self.reset_span().map(Into::into)
    }

    /// [`reset_after`](Self::reset_after), in the unit of verdicts.
    #[doc(hidden)]
    pub fn reset_span(&self) -> Option<Span> {
        self.tightest().map(|verdict| verdict.reset_after)
    }

    /// Why the decision turned out as it did.
    pub fn reason(&self) -> DecisionReason {
        let tightest = self.tightest_index();
        let is_blocked = tightest.is_some_and(|index| self.blocked & bit(index) != 0);
        match (self.allowed, self.source, tightest.and_then(|index| self.verdicts.get(index))) {
            (_, DecisionSource::Fallback, None) => DecisionReason::StoreUnavailable,
            (false, _, None) => DecisionReason::LimitExceeded,
            (true, _, None) => DecisionReason::NoPolicy,
            (true, ..) => DecisionReason::WithinLimit,
            (false, _, Some(verdict)) if verdict.is_hopeless() => DecisionReason::CostExceedsLimit,
            (false, ..) if is_blocked => DecisionReason::Blocked,
            (false, ..) => DecisionReason::LimitExceeded,
        }
    }

    /// Where the decision comes from.
    pub const fn source(&self) -> DecisionSource {
        self.source
    }

    /// Each limit's verdict, in the order of the policy's rules, shadows included.
    ///
    /// It is empty where nothing was counted: no policy applied, or the store did not answer and the policy fails
    /// open or closed.
    ///
    /// ```
    /// use tidegate::Limiter;
    ///
    /// let limiter = Limiter::builder().limits(["2/second", "100/hour"]).build()?;
    /// let decision = limiter.check_now("alice");
    /// let left: Vec<_> = decision.verdicts().iter().map(|verdict| verdict.remaining).collect();
    /// assert_eq!(left, [1, 99]);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    pub(crate) const fn verdicts_mut(&mut self) -> &mut Verdicts {
        &mut self.verdicts
    }

    pub(crate) const fn all_verdicts(&self) -> &Verdicts {
        &self.verdicts
    }

    /// Whether the verdict of the limit at `index` is enforced. A shadow limit is not, nor is a limit
    /// that fails open while the store is unavailable. Without verdicts, only the limits that fail
    /// closed count.
    pub const fn counts(&self, index: usize) -> bool {
        self.enforced & bit(index) != 0
    }

    /// The largest part of a denied cost that all enforced limits have left, if anything is left.
    pub fn largest_part(&self) -> Option<Cost> {
        let counted = self.verdicts.iter().enumerate().filter(|(index, _)| self.counts(*index));
        let left = counted.map(|(_, verdict)| verdict.remaining).min()?;
        Cost::new(left).ok().filter(|left| !self.allowed && !left.is_peek())
    }

    /// Whether the limit at `index` denies: by its verdict, or for lack of a store.
    pub fn is_denied_by(&self, index: usize) -> bool {
        self.counts(index) && self.verdicts.get(index).is_none_or(|verdict| !verdict.allowed)
    }

    /// Whether this decision took the cost of the charge at `index`. A shadow limit without room takes
    /// nothing, even if the request passed.
    pub fn has_paid(&self, charges: &[Charge<'_>], index: usize) -> bool {
        let is_paid = self.allowed
            && !matches!(self.source, DecisionSource::DenyCache | DecisionSource::None);
        is_paid && pays(charges, &self.verdicts, index)
    }

    /// The index of the tightest enforced limit.
    pub fn tightest_index(&self) -> Option<usize> {
        let mut enforced =
            self.verdicts.iter().enumerate().filter(|(index, _)| self.counts(*index));
        let (mut tightest, mut verdict) = enforced.next()?;
        for (index, other) in enforced {
            if other.is_tighter_than(verdict) {
                (tightest, verdict) = (index, other);
            }
        }
        Some(tightest)
    }

    fn tightest(&self) -> Option<&Verdict> {
        self.tightest_index().and_then(|index| self.verdicts.get(index))
    }
}

/// The bit of a verdict; a request has at most 32 charges.
const fn bit(index: usize) -> u32 {
    1 << (index % 32)
}
