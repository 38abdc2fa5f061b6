//! What a limiter answers.

use std::fmt;

use tidegate_core::{Charge, Rule, Span, Verdict, pays};
use tidegate_store::Verdicts;

/// Whether something may happen now, and what to tell the caller.
///
/// The numbers come from the tightest enforced limit: of those that deny, the one that takes
/// longest; otherwise the one with the smallest share left. [`verdicts`](Decision::verdicts) has
/// all of them.
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
///     println!("denied; try again in {}", wait.roughly());
/// }
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct Decision {
    allowed: bool,
    source: DecisionSource,
    verdicts: Verdicts,
    /// A bit for each limit that counts: see [`counts`](Decision::counts).
    enforced: u32,
    /// When to try again where no verdict says so.
    retry_after: Option<Span>,
    /// A bit for each verdict that is a penalty for an earlier denial.
    blocked: u32,
}

impl Decision {
    /// Settles charges for `rules` by `settle`, which fills in a verdict for each and says
    /// whether the request passes.
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

    /// [`settled`](Decision::settled) in a place that is there already, and holds no verdict yet.
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

    /// The same for charges of several policies.
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

    /// Says how the charges were settled whose verdicts are there.
    #[inline]
    pub(crate) fn fill_outcome(&mut self, charges: &[Charge<'_>], allowed: bool) {
        self.allowed = allowed;
        for (index, charge) in charges.iter().enumerate() {
            self.enforced |= u32::from(charge.rule().enforced) << (index % 32);
        }
    }

    /// Without verdicts: no limit was asked, or none could answer.
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

    /// Denied by the limits at these places because the store did not answer.
    pub(crate) fn unavailable(closed: impl Iterator<Item = usize>, retry_after: Span) -> Self {
        Self {
            retry_after: Some(retry_after),
            enforced: closed.fold(0, |bits, index| bits | bit(index)),
            ..Self::without_verdicts(false, DecisionSource::Fallback)
        }
    }

    /// Denied, with other verdicts.
    pub(crate) fn denied(self, verdicts: Verdicts) -> Self {
        Self { allowed: false, verdicts, ..self }
    }

    /// Denied at `index` as a penalty for an earlier denial: until that is over nothing is left,
    /// whatever the limit has. What never fits does not fit later either.
    pub(crate) fn blocked(mut self, index: usize, wait: Span) -> Self {
        let is_hopeless = self.verdicts.get(index).is_some_and(Verdict::is_hopeless);
        self = self.with_wait(index, wait);
        self.blocked |= bit(index);
        self.enforced |= bit(index);
        if let Some(verdict) = self.verdicts.get_mut(index) {
            verdict.remaining = 0;
            verdict.retry_after = verdict.retry_after.filter(|_| !is_hopeless);
        }
        self
    }

    /// Denied at `index` because others came first, and without a look at what is left. What never
    /// fits does not fit later either.
    pub(crate) fn turned_away(mut self, index: usize, wait: Span) -> Self {
        if !self.verdicts.get(index).is_some_and(Verdict::is_hopeless) {
            self = self.with_wait(index, wait);
        }
        if let Some(verdict) = self.verdicts.get_mut(index) {
            verdict.remaining = 0;
        }
        self
    }

    /// Denied, and the charge at `index` has to wait at least so long.
    pub(crate) fn with_wait(mut self, index: usize, wait: Span) -> Self {
        self.allowed = false;
        if let Some(verdict) = self.verdicts.get_mut(index) {
            verdict.allowed = false;
            verdict.retry_after = verdict.retry_after.max(Some(wait));
            verdict.reset_after = verdict.reset_after.max(wait);
        } else {
            self.retry_after = self.retry_after.max(Some(wait));
        }
        self
    }

    /// Whether it may happen.
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// What the tightest limit holds when it is full.
    pub fn limit(&self) -> Option<u64> {
        self.tightest().map(|verdict| verdict.limit)
    }

    /// What is left of the tightest limit.
    pub fn remaining(&self) -> Option<u64> {
        self.tightest().map(|verdict| verdict.remaining)
    }

    /// When to try again: exact, if nobody else comes first. `None` if it was allowed, and if it
    /// never will be.
    pub fn retry_after(&self) -> Option<Span> {
        if self.allowed {
            return self.retry_after;
        }
        self.tightest().map_or(self.retry_after, |verdict| verdict.retry_after)
    }

    /// When the tightest limit is full again, if nobody comes.
    pub fn reset_after(&self) -> Option<Span> {
        self.tightest().map(|verdict| verdict.reset_after)
    }

    /// Why.
    pub fn reason(&self) -> DecisionReason {
        let tightest = self.tightest_index();
        let is_blocked = tightest.is_some_and(|index| self.blocked & bit(index) != 0);
        match (self.allowed, self.source, tightest.and_then(|index| self.verdicts.get(index))) {
            (_, DecisionSource::Fallback, None) => DecisionReason::StoreUnavailable,
            (_, _, None) => DecisionReason::NoPolicy,
            (true, ..) => DecisionReason::WithinLimit,
            (false, _, Some(verdict)) if verdict.is_hopeless() => DecisionReason::CostExceedsLimit,
            (false, ..) if is_blocked => DecisionReason::Blocked,
            (false, ..) => DecisionReason::LimitExceeded,
        }
    }

    /// What decided.
    pub const fn source(&self) -> DecisionSource {
        self.source
    }

    /// Each limit's verdict, in the order of the policy's rules, shadows included.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    pub(crate) const fn verdicts_mut(&mut self) -> &mut Verdicts {
        &mut self.verdicts
    }

    pub(crate) const fn all_verdicts(&self) -> &Verdicts {
        &self.verdicts
    }

    /// Whether the verdict of the limit at `index` is enforced: not for a limit that is only
    /// observed, nor for one that is open while the store is unavailable. Without verdicts, only
    /// the limits that deny for lack of a store count.
    pub const fn counts(&self, index: usize) -> bool {
        self.enforced & bit(index) != 0
    }

    /// Whether the charge at `index`, of those that were decided about, was paid. A shadow limit need
    /// not have been, even if the request passed.
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

/// That of a verdict, of which there are 32 at most.
const fn bit(index: usize) -> u32 {
    1 << (index % 32)
}

/// Why a decision turned out as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecisionReason {
    /// Every limit had room.
    WithinLimit,
    /// A limit had no room; it will have some.
    LimitExceeded,
    /// The cost is more than a limit ever holds: waiting does not help.
    CostExceedsLimit,
    /// An earlier denial blocks everything for a while.
    Blocked,
    /// No enforced limit applied.
    NoPolicy,
    /// The store did not answer, and nothing stood in for it.
    StoreUnavailable,
}

impl DecisionReason {
    /// The name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WithinLimit => "within_limit",
            Self::LimitExceeded => "limit_exceeded",
            Self::CostExceedsLimit => "cost_exceeds_limit",
            Self::Blocked => "blocked",
            Self::NoPolicy => "no_policy",
            Self::StoreUnavailable => "store_unavailable",
        }
    }
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecisionSource {
    /// The store.
    Store,
    /// What the store said recently: it would deny this too.
    DenyCache,
    /// What was taken from the store in advance.
    Lease,
    /// The stand-in for a store that does not answer.
    Fallback,
    /// Nothing: no limit applied.
    None,
}

impl DecisionSource {
    /// All of them, in the order of their numbers.
    pub const ALL: &'static [Self] =
        &[Self::Store, Self::DenyCache, Self::Lease, Self::Fallback, Self::None];

    /// The name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::DenyCache => "deny_cache",
            Self::Lease => "lease",
            Self::Fallback => "fallback",
            Self::None => "none",
        }
    }
}

impl fmt::Display for DecisionSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
