//! A decision together with the limits that it is about.

use tidegate_limiter::config::PlannedPolicy;
use tidegate_limiter::{
    Charge, Decision, DecisionReason, Policy, RequestCharges, Rule, Span, Verdict,
};

use crate::CachedPolicyHeader;

/// A decision and its limits, from which fields and bodies are written.
///
/// The decision alone says how much is left; the limits say of what. Together they are what a client wants to know.
///
/// ```
/// use tidegate::Limiter;
/// use tidegate::http::RateLimitAnswer;
///
/// let limiter = Limiter::builder().name("api").limits(["5/second", "100/minute"]).build()?;
/// let decision = limiter.check_now("alice");
/// let answer = RateLimitAnswer::of_policy(limiter.policy(), &decision);
/// assert_eq!(answer.policy(), Some("api"));
/// assert_eq!(answer.each_limit().count(), 2);
/// // The limit that has least left, compared with what it holds.
/// assert_eq!(answer.tightest().map(|report| report.verdict.limit), Some(5));
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RateLimitAnswer<'a, 'p> {
    subject: AnswerSubject<'a, 'p>,
    decision: &'a Decision,
    /// The cached header of each limit, if there is one.
    policy_headers: &'a [&'static CachedPolicyHeader],
    /// Whether a denial includes when to retry.
    has_wait: bool,
}

/// The charges or the policy that were decided about.
#[derive(Clone, Copy, Debug)]
enum AnswerSubject<'a, 'p> {
    Charges(&'a RequestCharges<'p>),
    Policy(&'a Policy),
    /// The limits are not known.
    Unknown,
}

/// A limit with its policy and its verdict.
#[derive(Clone, Copy, Debug)]
pub struct LimitReport<'a> {
    /// The name of the policy.
    pub policy: &'a str,
    /// The limit.
    pub rule: &'a Rule,
    /// The limit's verdict.
    pub verdict: &'a Verdict,
}

impl<'a, 'p> RateLimitAnswer<'a, 'p> {
    /// An answer by the policies of a plan that apply to a request.
    ///
    /// ```
    /// use tidegate::config::PolicySource;
    /// use tidegate::http::RateLimitAnswer;
    /// use tidegate::{ChargeIntent, Cost, MemoryStore, PlanLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate::config::FileProblems> {
    /// let text = "policies: [{ name: api, key: [user], limits: [1/hour] }]";
    /// let limiter = PlanLimiter::load(&PolicySource::new("limits.yaml", text)?, MemoryStore::new())?;
    /// let plan = limiter.plan();
    /// let charges = plan.charges(&[("user", "42")], Cost::ONE);
    /// let decision = limiter.decide(&charges, ChargeIntent::Take).await;
    /// assert_eq!(RateLimitAnswer::of_charges(&charges, &decision).policy(), Some("api"));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn of_charges(charges: &'a RequestCharges<'p>, decision: &'a Decision) -> Self {
        Self {
            subject: AnswerSubject::Charges(charges),
            decision,
            policy_headers: &[],
            has_wait: true,
        }
    }

    /// An answer by the single policy of a limiter.
    pub const fn of_policy(policy: &'a Policy, decision: &'a Decision) -> Self {
        Self {
            subject: AnswerSubject::Policy(policy),
            decision,
            policy_headers: &[],
            has_wait: true,
        }
    }

    /// An answer by limits that are not known here. It has no `RateLimit` fields, and says only when to retry.
    ///
    /// ```
    /// use std::time::Duration;
    /// use http::HeaderMap;
    /// use tidegate::Decision;
    /// use tidegate::http::{RateLimitAnswer, describe};
    ///
    /// let decision = Decision::deny(Duration::from_secs(9));
    /// let mut headers = HeaderMap::new();
    /// describe(&RateLimitAnswer::of_decision(&decision), &mut headers);
    /// assert_eq!(headers["retry-after"], "9");
    /// assert!(!headers.contains_key("ratelimit"));
    /// ```
    pub const fn of_decision(decision: &'a Decision) -> Self {
        Self { subject: AnswerSubject::Unknown, decision, policy_headers: &[], has_wait: true }
    }

    /// Adds the [cached headers](CachedPolicyHeader::each_of) of the policy.
    #[must_use]
    pub const fn with_policy_headers(
        self,
        policy_headers: &'a [&'static CachedPolicyHeader],
    ) -> Self {
        Self { policy_headers, ..self }
    }

    /// For operations that are never denied, such as a refund: shows the limits afterwards, even if
    /// nothing remains, and not when to retry.
    #[must_use]
    pub const fn without_wait(self) -> Self {
        Self { has_wait: false, ..self }
    }

    /// When to retry.
    pub(crate) fn retry_after(&self) -> Option<Span> {
        self.decision.retry_span().filter(|_| self.has_wait)
    }

    /// The decision.
    pub const fn decision(&self) -> &'a Decision {
        self.decision
    }

    /// Whether more limits apply than can be settled together.
    pub const fn is_crowded(&self) -> bool {
        matches!(self.subject, AnswerSubject::Charges(charges) if charges.exceeds_max_charges())
    }

    /// The report of each limit, in the order of the file.
    pub fn each_limit(&self) -> impl Iterator<Item = LimitReport<'a>> + use<'a, 'p> {
        let answer = *self;
        (0..self.decision.verdicts().len()).filter_map(move |index| answer.limit_report(index))
    }

    /// The report of the limit at `index`.
    pub(crate) fn limit_report(&self, index: usize) -> Option<LimitReport<'a>> {
        let (policy, rule) = (self.subject.policy(index)?, self.subject.rule(index)?);
        Some(LimitReport { policy, rule, verdict: self.decision.verdicts().get(index)? })
    }

    /// The report of the tightest limit, which stands for all.
    pub fn tightest(&self) -> Option<LimitReport<'a>> {
        self.decision.tightest_index().and_then(|index| self.limit_report(index))
    }

    /// The cached header of the limit at `index`.
    pub(crate) fn policy_header(&self, index: usize) -> Option<&'static CachedPolicyHeader> {
        self.policy_headers.get(index).copied()
    }

    /// The policy of the tightest limit. Without verdicts, the first policy that denies for lack of a
    /// store, or else the first one.
    pub fn policy(&self) -> Option<&'a str> {
        let limiting = self.tightest().map(|report| report.policy);
        limiting
            .or_else(|| self.policies(|index| self.decision.counts(index)).next())
            .or_else(|| self.subject.policy(0))
            .or_else(|| self.subject.unlimited_by())
    }

    /// Why the decision turned out as it did. A caller whose policy has no limit, or is a shadow, is within
    /// the limit, and not without a policy.
    pub fn reason(&self) -> DecisionReason {
        let is_about = || self.decision.is_allowed() && self.policy().is_some();
        match self.decision.reason() {
            DecisionReason::NoPolicy if is_about() => DecisionReason::WithinLimit,
            reason => reason,
        }
    }

    /// The policies that a denied request has violated; all of them if none is known to deny, for example
    /// because there are too many.
    ///
    /// ```
    /// use tidegate::Limiter;
    /// use tidegate::http::RateLimitAnswer;
    ///
    /// let limiter = Limiter::builder().name("login").limit("1/hour").build()?;
    /// let _ = limiter.check_now("alice");
    /// let decision = limiter.check_now("alice");
    /// assert_eq!(RateLimitAnswer::of_policy(limiter.policy(), &decision).violated(), ["login"]);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn violated(&self) -> Vec<&'a str> {
        let mut names: Vec<_> = self.policies(|index| self.decision.is_denied_by(index)).collect();
        if names.is_empty() {
            names = self.policies(|_| true).collect();
        }
        names.dedup();
        names
    }

    /// The policy of each charge whose index is included.
    fn policies(&self, includes: impl Fn(usize) -> bool) -> impl Iterator<Item = &'a str> {
        let subject = self.subject;
        let each = (0..).map_while(move |index| Some((index, subject.policy(index)?)));
        each.filter(move |(index, _)| includes(*index)).map(|(_, name)| name)
    }
}

impl<'a> AnswerSubject<'a, '_> {
    fn policy(self, index: usize) -> Option<&'a str> {
        match self {
            Self::Charges(charges) => charges.policy_name(index),
            Self::Policy(policy) => policy.rules().get(index).map(|_| policy.name()),
            Self::Unknown => None,
        }
    }

    fn unlimited_by(self) -> Option<&'a str> {
        match self {
            Self::Charges(charges) => charges.unlimited_by().map(PlannedPolicy::name),
            Self::Policy(_) | Self::Unknown => None,
        }
    }

    fn rule(self, index: usize) -> Option<&'a Rule> {
        match self {
            Self::Charges(charges) => charges.charges().get(index).map(Charge::rule),
            Self::Policy(policy) => policy.rules().get(index),
            Self::Unknown => None,
        }
    }
}
