//! A decision, together with the limits that it is about.

use tidegate_limiter::config::PlannedPolicy;
use tidegate_limiter::{
    Charge, Decision, DecisionReason, Policy, RequestCharges, Rule, Span, Verdict,
};

use crate::CachedPolicyHeader;

/// What a client is told about.
#[derive(Clone, Copy, Debug)]
pub struct RateLimitAnswer<'a, 'p> {
    subject: AnswerSubject<'a, 'p>,
    decision: &'a Decision,
    /// Of each limit, if they were written before.
    policy_headers: &'a [&'static CachedPolicyHeader],
    /// Whether it says when to come back, if the decision is a denial.
    has_wait: bool,
}

/// Who was asked.
#[derive(Clone, Copy, Debug)]
enum AnswerSubject<'a, 'p> {
    Charges(&'a RequestCharges<'p>),
    Policy(&'a Policy),
}

/// A limit, whose it is, and what it says.
#[derive(Clone, Copy, Debug)]
pub struct LimitReport<'a> {
    /// The name of the policy.
    pub policy: &'a str,
    /// The limit.
    pub rule: &'a Rule,
    /// What it says.
    pub verdict: &'a Verdict,
}

impl<'a, 'p> RateLimitAnswer<'a, 'p> {
    /// By the policies of a plan that a request was about.
    pub const fn of_charges(owed: &'a RequestCharges<'p>, decision: &'a Decision) -> Self {
        Self {
            subject: AnswerSubject::Charges(owed),
            decision,
            policy_headers: &[],
            has_wait: true,
        }
    }

    /// By the one policy of a limiter.
    pub const fn of_policy(policy: &'a Policy, decision: &'a Decision) -> Self {
        Self {
            subject: AnswerSubject::Policy(policy),
            decision,
            policy_headers: &[],
            has_wait: true,
        }
    }

    /// With the [stencils](CachedPolicyHeader::each_of) of the policy that was asked.
    #[must_use]
    pub const fn with_policy_headers(self, stencils: &'a [&'static CachedPolicyHeader]) -> Self {
        Self { policy_headers: stencils, ..self }
    }

    /// For what is never refused, such as a refund: how the limits stand afterwards, even if nothing is
    /// left, and not when to come back.
    #[must_use]
    pub const fn without_wait(self) -> Self {
        Self { has_wait: false, ..self }
    }

    /// When to come back.
    pub(crate) fn retry_after(&self) -> Option<Span> {
        self.decision.retry_after().filter(|_| self.has_wait)
    }

    /// The decision.
    pub const fn decision(&self) -> &'a Decision {
        self.decision
    }

    /// Whether more limits apply than can be settled together.
    pub const fn is_crowded(&self) -> bool {
        matches!(self.subject, AnswerSubject::Charges(owed) if owed.exceeds_max_charges())
    }

    /// What each limit says, in the order of the file.
    pub fn each_limit(&self) -> impl Iterator<Item = LimitReport<'a>> + use<'a, 'p> {
        let answer = *self;
        (0..self.decision.verdicts().len()).filter_map(move |index| answer.limit_report(index))
    }

    /// What the limit at `index` says.
    pub(crate) fn limit_report(&self, index: usize) -> Option<LimitReport<'a>> {
        let (policy, rule) = (self.subject.policy(index)?, self.subject.rule(index)?);
        Some(LimitReport { policy, rule, verdict: self.decision.verdicts().get(index)? })
    }

    /// The one that speaks for all.
    pub fn tightest(&self) -> Option<LimitReport<'a>> {
        self.decision.tightest_index().and_then(|index| self.limit_report(index))
    }

    /// The stencil of the limit at `index`.
    pub(crate) fn policy_header(&self, index: usize) -> Option<&'static CachedPolicyHeader> {
        self.policy_headers.get(index).copied()
    }

    /// The policy that speaks for all. When none could say anything, the first that denies for that,
    /// or else the first one.
    pub fn policy(&self) -> Option<&'a str> {
        let limiting = self.tightest().map(|said| said.policy);
        limiting
            .or_else(|| self.policies(|index| self.decision.counts(index)).next())
            .or_else(|| self.subject.policy(0))
            .or_else(|| self.subject.unlimited_by())
    }

    /// Why. Whom a policy sets no limit, or only watches, is within it, and not without a policy.
    pub fn reason(&self) -> DecisionReason {
        let is_about = || self.decision.is_allowed() && self.policy().is_some();
        match self.decision.reason() {
            DecisionReason::NoPolicy if is_about() => DecisionReason::WithinLimit,
            reason => reason,
        }
    }

    /// The policies that a denied request has violated; all of them when none is known to deny, as
    /// where there are too many.
    pub fn violated(&self) -> Vec<&'a str> {
        let mut names: Vec<_> = self.policies(|index| self.is_denied_by(index)).collect();
        if names.is_empty() {
            names = self.policies(|_| true).collect();
        }
        names.dedup();
        names
    }

    /// Whether the limit at `index` denies: by its verdict, or for want of a store.
    fn is_denied_by(&self, index: usize) -> bool {
        let verdict = self.decision.verdicts().get(index);
        self.decision.counts(index) && verdict.is_none_or(|verdict| !verdict.allowed)
    }

    /// The policy of each charge that is meant.
    fn policies(&self, is_meant: impl Fn(usize) -> bool) -> impl Iterator<Item = &'a str> {
        let asked = self.subject;
        let each = (0..).map_while(move |index| Some((index, asked.policy(index)?)));
        each.filter(move |(index, _)| is_meant(*index)).map(|(_, name)| name)
    }
}

impl<'a> AnswerSubject<'a, '_> {
    fn policy(self, index: usize) -> Option<&'a str> {
        match self {
            Self::Charges(owed) => owed.policy_name(index),
            Self::Policy(policy) => policy.rules().get(index).map(|_| policy.name()),
        }
    }

    fn unlimited_by(self) -> Option<&'a str> {
        match self {
            Self::Charges(owed) => owed.unlimited_by().map(PlannedPolicy::name),
            Self::Policy(_) => None,
        }
    }

    fn rule(self, index: usize) -> Option<&'a Rule> {
        match self {
            Self::Charges(owed) => owed.charges().get(index).map(Charge::rule),
            Self::Policy(policy) => policy.rules().get(index),
        }
    }
}
