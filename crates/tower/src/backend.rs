//! Who decides: the limiter of one policy, or of a plan.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tidegate_http::{CachedPolicyHeader, RateLimitAnswer, RateLimitFields, RequestFault};
use tidegate_limiter::config::LegacyHeaders;
use tidegate_limiter::{
    Cost, Decision, DecisionSource, Fingerprint, Key, Limiter, Plan, PlanLimiter, RequestCharges,
    Store,
};

use crate::RequestHead;
use crate::attributes::{OwnedAttribute, attributes};
use crate::config::LayerConfig;
use crate::warnings;

/// A limiter without its type.
pub(crate) trait LayerBackend: Send + Sync {
    /// What can be said about a request without waiting. What is decided is left in its place: moving
    /// it about would take as long as deciding.
    fn try_decide(
        &self,
        head: &RequestHead<'_>,
        config: &LayerConfig,
        place: &mut LayerDecision,
    ) -> ImmediateOutcome;

    /// The decision, what the client hears of it, and the question back.
    fn answer(self: Arc<Self>, question: LayerCheck) -> BoxedFuture<LayerDecision>;

    /// Gives back what a decision took: the response does not count.
    fn undo(self: Arc<Self>, question: LayerCheck, decision: Decision) -> BoxedFuture<()>;

    /// What there is to do if the response counts, where not all of them do.
    fn confirm(
        self: Arc<Self>,
        question: LayerCheck,
        decision: Decision,
    ) -> Option<BoxedFuture<()>>;
}

pub(crate) type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How a request stands at first sight.
#[derive(Debug)]
pub(crate) enum ImmediateOutcome {
    /// It may happen: nothing limits it, or nobody wants to hear more of it than that.
    Pass,
    /// The decision about it is there.
    Decided,
    /// The decision takes a while.
    Pending(LayerCheck),
    /// It could be understood in two ways.
    Ambiguous(RequestFault),
}

/// Who asks, and for how much.
#[derive(Debug)]
pub(crate) struct LayerCheck {
    subject: LayerSubject,
    cost: Cost,
    /// Whether the client hears of what is allowed, too.
    describes_allowed: bool,
    /// Whether the response tells if the request counts.
    is_counted_later: bool,
}

#[derive(Debug)]
enum LayerSubject {
    Key(LayerCaller),
    /// With the plan that wants to know them: another may take its place meanwhile.
    Attributes(Arc<Plan>, Vec<OwnedAttribute>),
}

/// Who is counted, and what that is called if the store calls keys by names.
#[derive(Debug)]
struct LayerCaller {
    print: Fingerprint,
    name: Option<Box<str>>,
}

impl Key for LayerCaller {
    fn each_part(&self, part: impl FnMut(&[u8])) {
        self.print.each_part(part);
    }

    #[inline]
    fn known(&self) -> Option<Fingerprint> {
        Some(self.print)
    }

    fn text(&self) -> Option<String> {
        self.name.as_deref().map(str::to_owned)
    }
}

/// A decision, and what is to be done about it.
#[derive(Debug)]
pub(crate) struct LayerDecision {
    pub(crate) decision: Decision,
    pub(crate) response: PreparedResponse,
    /// Where the response tells whether the request counts.
    pub(crate) check: Option<Box<LayerCheck>>,
}

impl LayerDecision {
    /// Nothing so far.
    pub(crate) fn nothing() -> Self {
        let decision = Decision::without_verdicts(true, DecisionSource::None);
        Self { decision, response: PreparedResponse::default(), check: None }
    }
}

/// What to tell the client of a decision.
#[derive(Debug, Default)]
pub(crate) struct PreparedResponse {
    pub(crate) fields: RateLimitFields,
    /// What to answer instead of the service, if it is a denial.
    pub(crate) denial: Option<Box<Response<Bytes>>>,
}

impl PreparedResponse {
    #[inline(always)]
    fn describe(&mut self, answer: &RateLimitAnswer<'_, '_>, question: &LayerCheck) {
        let is_denied = !answer.decision().is_allowed();
        if question.describes_allowed || is_denied {
            self.fields.set_from(answer);
            if let Some(unit) = question.legacy_headers() {
                self.fields.set_legacy_from(answer, unit);
            }
        }
        if is_denied {
            self.denial = Some(Box::new(tidegate_http::denial_without_fields(answer)));
        }
    }
}

/// By a key.
struct KeyedBackend<S> {
    limiter: Arc<Limiter<S>>,
    policy_headers: Vec<&'static CachedPolicyHeader>,
}

impl<S: Store> KeyedBackend<S> {
    fn new(limiter: Arc<Limiter<S>>) -> Self {
        let stencils = CachedPolicyHeader::each_of(limiter.policy());
        Self { limiter, policy_headers: stencils }
    }

    #[inline(always)]
    fn caller(
        &self,
        head: &RequestHead<'_>,
        config: &LayerConfig,
    ) -> Result<Option<LayerCaller>, RequestFault> {
        let look = config.key_context(head);
        let Some(print) = config.key.fingerprint(look, self.limiter.policy())? else {
            return Ok(None);
        };
        let name = match self.limiter.store().names_keys() {
            true => config.key.name(look)?.map(Into::into),
            false => None,
        };
        Ok(Some(LayerCaller { print, name }))
    }

    #[inline(always)]
    fn describe(&self, decided: &mut LayerDecision, question: &LayerCheck) {
        let answer = RateLimitAnswer::of_policy(self.limiter.policy(), &decided.decision);
        decided.response.describe(&answer.with_policy_headers(&self.policy_headers), question);
    }
}

impl<S: Store + 'static> LayerBackend for KeyedBackend<S> {
    fn try_decide(
        &self,
        head: &RequestHead<'_>,
        config: &LayerConfig,
        place: &mut LayerDecision,
    ) -> ImmediateOutcome {
        let key = match self.caller(head, config) {
            Ok(Some(key)) => key,
            Ok(None) => return ImmediateOutcome::Pass,
            Err(fault) => return ImmediateOutcome::Ambiguous(fault),
        };
        let cost = config.cost_of(head);
        let is_decided = self.limiter.try_check_into(&key, cost, &mut place.decision);
        if is_decided && place.decision.is_allowed() && config.is_silent() {
            return ImmediateOutcome::Pass;
        }
        let question = LayerCheck::new(LayerSubject::Key(key), cost, config);
        if !is_decided {
            return ImmediateOutcome::Pending(question);
        }
        self.describe(place, &question);
        place.check = question.kept_for_response();
        ImmediateOutcome::Decided
    }

    fn answer(self: Arc<Self>, question: LayerCheck) -> BoxedFuture<LayerDecision> {
        Box::pin(async move {
            let mut decided = LayerDecision::nothing();
            if let Some(key) = question.key() {
                decided.decision = self.limiter.check_n(key, question.cost).await;
                self.describe(&mut decided, &question);
            }
            decided.check = question.kept_for_response();
            decided
        })
    }

    fn undo(self: Arc<Self>, question: LayerCheck, decision: Decision) -> BoxedFuture<()> {
        Box::pin(async move {
            if let Some(key) = question.key() {
                // A store that does not answer gives nothing back, and nobody waits for that.
                let _ = self.limiter.undo(key, question.cost, &decision).await;
            }
        })
    }

    fn confirm(self: Arc<Self>, _: LayerCheck, _: Decision) -> Option<BoxedFuture<()>> {
        None
    }
}

/// By attributes.
impl<S: Store + 'static> LayerBackend for PlanLimiter<S> {
    fn try_decide(
        &self,
        head: &RequestHead<'_>,
        config: &LayerConfig,
        place: &mut LayerDecision,
    ) -> ImmediateOutcome {
        let plan = self.plan();
        let attributes = match attributes(&plan, head, config) {
            Ok(attributes) => attributes,
            Err(fault) => return ImmediateOutcome::Ambiguous(fault),
        };
        let subject = LayerSubject::Attributes(plan, attributes);
        let question = LayerCheck::new(subject, config.cost_of(head), config);
        let decision = question.charges().and_then(|owed| {
            let decision = self.try_decide(&owed)?;
            place.response.describe(&RateLimitAnswer::of_charges(&owed, &decision), &question);
            Some(decision)
        });
        match decision {
            Some(decision) if decision.is_allowed() && config.is_silent() => ImmediateOutcome::Pass,
            Some(decision) => {
                place.decision = decision;
                place.check = question.kept_for_response();
                ImmediateOutcome::Decided
            }
            None => ImmediateOutcome::Pending(question),
        }
    }

    fn answer(self: Arc<Self>, question: LayerCheck) -> BoxedFuture<LayerDecision> {
        Box::pin(async move {
            let mut decided = LayerDecision::nothing();
            if let Some(owed) = question.charges() {
                decided.decision = self.decide(&owed).await;
                decided
                    .response
                    .describe(&RateLimitAnswer::of_charges(&owed, &decided.decision), &question);
            }
            decided.check = question.kept_for_response();
            decided
        })
    }

    fn undo(self: Arc<Self>, question: LayerCheck, decision: Decision) -> BoxedFuture<()> {
        Box::pin(async move {
            if let Some(owed) = question.charges() {
                let _ = Self::undo(&self, &owed, &decision).await;
            }
        })
    }

    /// Blocks whoever has used up what a policy with `block_for` allows. A limit that took nothing has
    /// nothing to say about that: to it there was no request.
    fn confirm(
        self: Arc<Self>,
        question: LayerCheck,
        decision: Decision,
    ) -> Option<BoxedFuture<()>> {
        Some(Box::pin(async move {
            let Some(owed) = question.charges() else { return };
            let charges = owed.charges();
            let is_paid = |index: &usize| {
                let is_peek = charges.get(*index).is_none_or(|charge| charge.cost().is_peek());
                !is_peek && decision.has_paid(charges, *index)
            };
            let paid = owed.subset((0..charges.len()).filter(is_paid));
            self.block_if_used_up(&paid).await;
        }))
    }
}

/// Each backend is asked its own questions only.
impl LayerCheck {
    const fn new(subject: LayerSubject, cost: Cost, config: &LayerConfig) -> Self {
        let (tells, is_counted_later) = (config.describes_allowed(), config.count_if.is_some());
        Self { subject, cost, describes_allowed: tells, is_counted_later }
    }

    /// For later, if there is anything left to ask then.
    fn kept_for_response(self) -> Option<Box<Self>> {
        self.is_counted_later.then(|| Box::new(self))
    }

    const fn key(&self) -> Option<&LayerCaller> {
        match &self.subject {
            LayerSubject::Key(key) => Some(key),
            LayerSubject::Attributes(..) => None,
        }
    }

    /// The unit of `X-RateLimit-Reset`, if the plan wants such fields.
    fn legacy_headers(&self) -> Option<LegacyHeaders> {
        match &self.subject {
            LayerSubject::Attributes(plan, _) => plan.settings().legacy_headers(),
            LayerSubject::Key(_) => None,
        }
    }

    fn charges(&self) -> Option<RequestCharges<'_>> {
        match &self.subject {
            LayerSubject::Attributes(plan, values) => {
                let owed = plan.charges(&values[..], self.cost);
                Some(if self.is_counted_later { owed.counted_later() } else { owed })
            }
            LayerSubject::Key(_) => None,
        }
    }
}

/// What [`RateLimitLayer::limiter`](crate::RateLimitLayer::limiter) takes: a [`Limiter`], a
/// [`PlanLimiter`], or an [`Arc`] of one.
pub trait IntoBackend: sealed::SealedIntoBackend {}

impl<T: sealed::SealedIntoBackend> IntoBackend for T {}

pub(crate) mod sealed {
    use super::*;

    pub trait SealedIntoBackend {
        #[allow(private_interfaces, reason = "the trait is sealed, and nobody else calls this")]
        fn into_backend(self) -> Arc<dyn LayerBackend>;
    }
}

macro_rules! into_backend {
    ($($limiter:ty, $limiter_in_arc:expr;)*) => {$(
        impl<S: Store + 'static> sealed::SealedIntoBackend for Arc<$limiter> {
            #[allow(private_interfaces, reason = "the trait is sealed, and nobody else calls this")]
            fn into_backend(self) -> Arc<dyn LayerBackend> {
                $limiter_in_arc(self)
            }
        }

        impl<S: Store + 'static> sealed::SealedIntoBackend for $limiter {
            #[allow(private_interfaces, reason = "the trait is sealed, and nobody else calls this")]
            fn into_backend(self) -> Arc<dyn LayerBackend> {
                $limiter_in_arc(Arc::new(self))
            }
        }
    )*};
}

into_backend! {
    Limiter<S>, |limiter| Arc::new(KeyedBackend::new(limiter));
    PlanLimiter<S>, |limiter: Arc<PlanLimiter<S>>| {
        warnings::warn_about_plan(&limiter.plan());
        limiter
    };
}
