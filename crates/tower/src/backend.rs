//! The backend of a layer: the limiter of one policy, or of a plan.

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

/// A limiter behind a layer, whatever its type.
pub(crate) trait LayerBackend: Send + Sync {
    /// Decides about a request without waiting, if possible. The decision is written to `decided`: moving
    /// it would take as long as deciding.
    fn try_decide(
        &self,
        head: &RequestHead<'_>,
        config: &LayerConfig,
        decided: &mut LayerDecision,
    ) -> ImmediateOutcome;

    /// Decides with the store, and prepares the response.
    fn answer(self: Arc<Self>, check: LayerCheck) -> BoxedFuture<LayerDecision>;

    /// Gives back what a decision took, because the response does not count.
    fn undo(self: Arc<Self>, check: LayerCheck, decision: Decision) -> BoxedFuture<()>;

    /// The work to do when a response counts, for layers whose responses do not all count.
    fn confirm(self: Arc<Self>, check: LayerCheck, decision: Decision) -> Option<BoxedFuture<()>>;
}

pub(crate) type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The outcome that is known without waiting.
#[derive(Debug)]
pub(crate) enum ImmediateOutcome {
    /// The request passes: nothing limits it, or nothing uses the decision.
    Pass,
    /// The decision is made.
    Decided,
    /// The decision needs waiting for the store.
    Pending(LayerCheck),
    /// The request can be read in two ways.
    Ambiguous(RequestFault),
}

/// The check of one request: the caller or its attributes, and the cost.
#[derive(Debug)]
pub(crate) struct LayerCheck {
    subject: LayerSubject,
    cost: Cost,
    /// Whether responses to allowed requests carry `RateLimit` fields.
    describes_allowed: bool,
    /// Whether the response decides if the request counts.
    is_counted_later: bool,
}

/// What a check counts by.
#[derive(Debug)]
enum LayerSubject {
    Key(LayerCaller),
    /// The attributes, with the plan that uses them: the limiter's plan can be replaced meanwhile.
    Attributes(Arc<Plan>, Vec<OwnedAttribute>),
}

/// The caller's fingerprint, and its name if the store stores keys by name.
#[derive(Debug)]
struct LayerCaller {
    fingerprint: Fingerprint,
    name: Option<Box<str>>,
}

impl Key for LayerCaller {
    fn each_part(&self, part: impl FnMut(&[u8])) {
        self.fingerprint.each_part(part);
    }

    #[inline]
    fn known(&self) -> Option<Fingerprint> {
        Some(self.fingerprint)
    }

    fn text(&self) -> Option<String> {
        self.name.as_deref().map(str::to_owned)
    }
}

/// A decision with its response.
#[derive(Debug)]
pub(crate) struct LayerDecision {
    pub(crate) decision: Decision,
    pub(crate) response: PreparedResponse,
    /// The check, if the response decides whether the request counts.
    pub(crate) check: Option<Box<LayerCheck>>,
}

impl LayerDecision {
    /// A placeholder before the decision.
    pub(crate) fn nothing() -> Self {
        let decision = Decision::without_verdicts(true, DecisionSource::None);
        Self { decision, response: PreparedResponse::default(), check: None }
    }
}

/// The response to the client, prepared from a decision.
#[derive(Debug, Default)]
pub(crate) struct PreparedResponse {
    pub(crate) fields: RateLimitFields,
    /// The response instead of the service's, if the decision is a denial.
    pub(crate) denial: Option<Box<Response<Bytes>>>,
}

impl PreparedResponse {
    #[inline(always)]
    fn describe(&mut self, answer: &RateLimitAnswer<'_, '_>, check: &LayerCheck) {
        let is_denied = !answer.decision().is_allowed();
        if check.describes_allowed || is_denied {
            self.fields.set_from(answer);
            if let Some(unit) = check.legacy_headers() {
                self.fields.set_legacy_from(answer, unit);
            }
        }
        if is_denied {
            self.denial = Some(Box::new(tidegate_http::denial_without_fields(answer)));
        }
    }
}

/// A backend that counts by a key.
struct KeyedBackend<S> {
    limiter: Arc<Limiter<S>>,
    policy_headers: Vec<&'static CachedPolicyHeader>,
}

impl<S: Store> KeyedBackend<S> {
    fn new(limiter: Arc<Limiter<S>>) -> Self {
        let policy_headers = CachedPolicyHeader::each_of(limiter.policy());
        Self { limiter, policy_headers }
    }

    #[inline(always)]
    fn caller(
        &self,
        head: &RequestHead<'_>,
        config: &LayerConfig,
    ) -> Result<Option<LayerCaller>, RequestFault> {
        let context = config.key_context(head);
        let Some(fingerprint) = config.key.fingerprint(context, self.limiter.policy())? else {
            return Ok(None);
        };
        let name = match self.limiter.store().names_keys() {
            true => config.key.name(context)?.map(Into::into),
            false => None,
        };
        Ok(Some(LayerCaller { fingerprint, name }))
    }

    #[inline(always)]
    fn describe(&self, decided: &mut LayerDecision, check: &LayerCheck) {
        let answer = RateLimitAnswer::of_policy(self.limiter.policy(), &decided.decision);
        decided.response.describe(&answer.with_policy_headers(&self.policy_headers), check);
    }
}

impl<S: Store + 'static> LayerBackend for KeyedBackend<S> {
    fn try_decide(
        &self,
        head: &RequestHead<'_>,
        config: &LayerConfig,
        decided: &mut LayerDecision,
    ) -> ImmediateOutcome {
        let key = match self.caller(head, config) {
            Ok(Some(key)) => key,
            Ok(None) => return ImmediateOutcome::Pass,
            Err(fault) => return ImmediateOutcome::Ambiguous(fault),
        };
        let cost = config.cost_of(head);
        let is_decided = self.limiter.try_check_into(&key, cost, &mut decided.decision);
        if is_decided && decided.decision.is_allowed() && config.is_silent() {
            return ImmediateOutcome::Pass;
        }
        let check = LayerCheck::new(LayerSubject::Key(key), cost, config);
        if !is_decided {
            return ImmediateOutcome::Pending(check);
        }
        self.describe(decided, &check);
        decided.check = check.kept_for_response();
        ImmediateOutcome::Decided
    }

    fn answer(self: Arc<Self>, check: LayerCheck) -> BoxedFuture<LayerDecision> {
        Box::pin(async move {
            let mut decided = LayerDecision::nothing();
            if let Some(key) = check.key() {
                decided.decision = self.limiter.check_n(key, check.cost).await;
                self.describe(&mut decided, &check);
            }
            decided.check = check.kept_for_response();
            decided
        })
    }

    fn undo(self: Arc<Self>, check: LayerCheck, decision: Decision) -> BoxedFuture<()> {
        Box::pin(async move {
            if let Some(key) = check.key() {
                // If the store does not answer, the units stay taken.
                let _ = self.limiter.undo(key, check.cost, &decision).await;
            }
        })
    }

    fn confirm(self: Arc<Self>, _: LayerCheck, _: Decision) -> Option<BoxedFuture<()>> {
        None
    }
}

/// A plan's limiter is a backend that counts by attributes.
impl<S: Store + 'static> LayerBackend for PlanLimiter<S> {
    fn try_decide(
        &self,
        head: &RequestHead<'_>,
        config: &LayerConfig,
        decided: &mut LayerDecision,
    ) -> ImmediateOutcome {
        let plan = self.plan();
        let attributes = match attributes(&plan, head, config) {
            Ok(attributes) => attributes,
            Err(fault) => return ImmediateOutcome::Ambiguous(fault),
        };
        let subject = LayerSubject::Attributes(plan, attributes);
        let check = LayerCheck::new(subject, config.cost_of(head), config);
        let decision = check.charges().and_then(|charges| {
            let decision = self.try_decide(&charges)?;
            decided.response.describe(&RateLimitAnswer::of_charges(&charges, &decision), &check);
            Some(decision)
        });
        match decision {
            Some(decision) if decision.is_allowed() && config.is_silent() => ImmediateOutcome::Pass,
            Some(decision) => {
                decided.decision = decision;
                decided.check = check.kept_for_response();
                ImmediateOutcome::Decided
            }
            None => ImmediateOutcome::Pending(check),
        }
    }

    fn answer(self: Arc<Self>, check: LayerCheck) -> BoxedFuture<LayerDecision> {
        Box::pin(async move {
            let mut decided = LayerDecision::nothing();
            if let Some(charges) = check.charges() {
                decided.decision = self.decide(&charges).await;
                decided
                    .response
                    .describe(&RateLimitAnswer::of_charges(&charges, &decided.decision), &check);
            }
            decided.check = check.kept_for_response();
            decided
        })
    }

    fn undo(self: Arc<Self>, check: LayerCheck, decision: Decision) -> BoxedFuture<()> {
        Box::pin(async move {
            if let Some(charges) = check.charges() {
                let _ = Self::undo(&self, &charges, &decision).await;
            }
        })
    }

    /// Blocks callers that have used up a policy with `block_for`. Limits that took nothing are left out:
    /// for them there was no request.
    fn confirm(self: Arc<Self>, check: LayerCheck, decision: Decision) -> Option<BoxedFuture<()>> {
        Some(Box::pin(async move {
            let Some(request) = check.charges() else { return };
            let charges = request.charges();
            let is_paid = |index: &usize| {
                let is_peek = charges.get(*index).is_none_or(|charge| charge.cost().is_peek());
                !is_peek && decision.has_paid(charges, *index)
            };
            let paid = request.subset((0..charges.len()).filter(is_paid));
            self.block_if_used_up(&paid).await;
        }))
    }
}

/// Each backend only gets checks of its own kind.
impl LayerCheck {
    const fn new(subject: LayerSubject, cost: Cost, config: &LayerConfig) -> Self {
        let describes_allowed = config.describes_allowed();
        Self { subject, cost, describes_allowed, is_counted_later: config.count_if.is_some() }
    }

    /// Keeps the check if the response decides whether the request counts.
    fn kept_for_response(self) -> Option<Box<Self>> {
        self.is_counted_later.then(|| Box::new(self))
    }

    const fn key(&self) -> Option<&LayerCaller> {
        match &self.subject {
            LayerSubject::Key(key) => Some(key),
            LayerSubject::Attributes(..) => None,
        }
    }

    /// The unit of `X-RateLimit-Reset`, if the plan has such fields enabled.
    fn legacy_headers(&self) -> Option<LegacyHeaders> {
        match &self.subject {
            LayerSubject::Attributes(plan, _) => plan.settings().legacy_headers(),
            LayerSubject::Key(_) => None,
        }
    }

    fn charges(&self) -> Option<RequestCharges<'_>> {
        match &self.subject {
            LayerSubject::Attributes(plan, values) => {
                let charges = plan.charges(&values[..], self.cost);
                Some(if self.is_counted_later { charges.counted_later() } else { charges })
            }
            LayerSubject::Key(_) => None,
        }
    }
}

/// What [`RateLimitLayer::limiter`](crate::RateLimitLayer::limiter) takes: a [`Limiter`], a
/// [`PlanLimiter`], or an [`Arc`] of one.
///
/// It is sealed: a store of your own goes into a limiter, by [`Limiter::builder`], and works here too.
pub trait IntoBackend: sealed::SealedIntoBackend {}

impl<T: sealed::SealedIntoBackend> IntoBackend for T {}

pub(crate) mod sealed {
    use super::*;

    pub trait SealedIntoBackend {
        #[allow(private_interfaces, reason = "the trait is sealed, and not called elsewhere")]
        fn into_backend(self) -> Arc<dyn LayerBackend>;
    }
}

macro_rules! into_backend {
    ($($limiter:ty, $limiter_in_arc:expr;)*) => {$(
        impl<S: Store + 'static> sealed::SealedIntoBackend for Arc<$limiter> {
            #[allow(private_interfaces, reason = "the trait is sealed, and not called elsewhere")]
            fn into_backend(self) -> Arc<dyn LayerBackend> {
                $limiter_in_arc(self)
            }
        }

        impl<S: Store + 'static> sealed::SealedIntoBackend for $limiter {
            #[allow(private_interfaces, reason = "the trait is sealed, and not called elsewhere")]
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
