//! The backend of a layer: the limiter of one policy, of a plan, or one that the program brings.

mod keyed;
mod open;
mod planned;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tidegate_http::{RateLimitAnswer, RateLimitFields, RequestFault};
use tidegate_limiter::config::LegacyHeaders;
use tidegate_limiter::{
    AnyLimiter, Charge, Cost, Decision, DecisionSource, Fingerprint, KeyHasher, Limiter, OwnedKey,
    Plan, PlanLimiter, RequestCharges, Store,
};

use self::keyed::{KeyedBackend, LayerCaller};
use self::open::OpenBackend;
use crate::RequestHead;
use crate::attributes::OwnedAttribute;
use crate::config::LayerConfig;

/// A limiter behind a layer, whatever its type.
pub(crate) trait LayerBackend: Send + Sync {
    /// The check of a request, without deciding; `None` if nothing limits it.
    fn prepare(&self, head: &RequestHead<'_>, config: &LayerConfig) -> PreparedCheck;

    /// Decides about a request without waiting, if possible. The decision is written to `decided`: moving
    /// it would take as long as deciding.
    fn try_decide(
        &self,
        head: &RequestHead<'_>,
        config: &LayerConfig,
        decided: &mut LayerDecision,
    ) -> ImmediateOutcome;

    /// What is likely a mistake in how the layer is configured.
    fn warnings(&self, config: &LayerConfig) -> Vec<String> {
        let _ = config;
        Vec::new()
    }

    /// Decides with the store, and prepares the response.
    fn decide<'a>(&'a self, check: &'a LayerCheck) -> BorrowedFuture<'a, LayerDecision>;

    /// Gives back what a decision took, because the response does not count.
    fn undo(self: Arc<Self>, check: LayerCheck, decision: Decision) -> BoxedFuture<()>;

    /// Gives back or takes the difference between what a decision took and what the response costs. The request
    /// has happened: a cost that exceeds the quota takes all that is left.
    fn correct(
        self: Arc<Self>,
        check: LayerCheck,
        decision: Decision,
        cost: Cost,
    ) -> BoxedFuture<()>;

    /// The work to do when a response counts, for layers whose responses do not all count.
    fn confirm(self: Arc<Self>, check: LayerCheck, decision: Decision) -> Option<BoxedFuture<()>>;
}

pub(crate) type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(crate) type BorrowedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// The check of a request; `None` if nothing limits it. The error: the request can be read in two ways.
pub(crate) type PreparedCheck = Result<Option<LayerCheck>, RequestFault>;

/// How the cost of a response differs from what was taken before it.
#[derive(Clone, Copy, Debug)]
enum CostDifference {
    None,
    /// This much was taken too much.
    Less(Cost),
    /// This much is still to be taken.
    More(Cost),
}

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
    /// The key, for a limiter that the program brings.
    Own(OwnedKey),
    /// The attributes, with the plan that uses them: the limiter's plan can be replaced meanwhile.
    Attributes(Arc<Plan>, Vec<OwnedAttribute>),
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

    /// A denial of a request that was not decided about.
    pub(crate) fn turned_away(decision: Decision, check: &LayerCheck) -> Self {
        let mut decided = Self { decision, ..Self::nothing() };
        decided.response.describe(&RateLimitAnswer::of_decision(&decided.decision), check);
        decided
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

/// Each backend only gets checks of its own kind.
impl LayerCheck {
    const fn new(subject: LayerSubject, cost: Cost, config: &LayerConfig) -> Self {
        let describes_allowed = config.describes_allowed();
        Self { subject, cost, describes_allowed, is_counted_later: config.is_counted_later() }
    }

    /// Keeps the check if the response decides whether the request counts.
    pub(crate) fn kept_for_response(self) -> Option<Box<Self>> {
        self.is_counted_later.then(|| Box::new(self))
    }

    const fn key(&self) -> Option<&LayerCaller> {
        match &self.subject {
            LayerSubject::Key(key) => Some(key),
            LayerSubject::Own(_) | LayerSubject::Attributes(..) => None,
        }
    }

    const fn own_key(&self) -> Option<&OwnedKey> {
        match &self.subject {
            LayerSubject::Own(key) => Some(key),
            LayerSubject::Key(_) | LayerSubject::Attributes(..) => None,
        }
    }

    /// The queue of this request's caller. Of several policies, each combination of callers has its own, so that
    /// no caller waits behind another's request.
    pub(crate) fn line(&self) -> Fingerprint {
        match &self.subject {
            LayerSubject::Key(key) => key.fingerprint(),
            LayerSubject::Own(key) => KeyHasher::of_this_process().fingerprint(key),
            LayerSubject::Attributes(..) => {
                let charges = self.charges();
                let charges = charges.iter().flat_map(RequestCharges::charges);
                let all = charges.map(Charge::counter).fold((0, 0), |(high, low), one| {
                    (high ^ one.high().rotate_left(1), low ^ one.low().rotate_left(1))
                });
                Fingerprint::new(all.0, all.1)
            }
        }
    }

    const fn difference_to(&self, cost: Cost) -> CostDifference {
        let (paid, due) = (self.cost.get(), cost.get());
        match (Cost::new(paid.saturating_sub(due)), Cost::new(due.saturating_sub(paid))) {
            (Ok(less), _) if less.get() > 0 => CostDifference::Less(less),
            (_, Ok(more)) if more.get() > 0 => CostDifference::More(more),
            _ => CostDifference::None,
        }
    }

    /// The unit of `X-RateLimit-Reset`, if the plan has such fields enabled.
    fn legacy_headers(&self) -> Option<LegacyHeaders> {
        match &self.subject {
            LayerSubject::Attributes(plan, _) => plan.settings().legacy_headers(),
            LayerSubject::Key(_) | LayerSubject::Own(_) => None,
        }
    }

    fn charges(&self) -> Option<RequestCharges<'_>> {
        match &self.subject {
            LayerSubject::Attributes(plan, values) => {
                let charges = plan.charges(&values[..], self.cost);
                Some(if self.is_counted_later { charges.counted_later() } else { charges })
            }
            LayerSubject::Key(_) | LayerSubject::Own(_) => None,
        }
    }
}

/// What [`RateLimitLayer::limiter`](crate::RateLimitLayer::limiter) takes: a [`Limiter`], a
/// [`PlanLimiter`], an [`Arc`] of one, or an [`AnyLimiter`] around a limiter of your own.
///
/// It is sealed: a store of your own goes into a limiter, by [`Limiter::builder`], and works here too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a limiter that a layer can use",
    note = "use a tidegate::Limiter, a tidegate::PlanLimiter, or an Arc of one",
    note = "a type of your own that implements tidegate::RateLimiter goes into tidegate::AnyLimiter::new(...)"
)]
pub trait IntoBackend: sealed::SealedIntoBackend {}

impl<T: sealed::SealedIntoBackend> IntoBackend for T {}

pub(crate) mod sealed {
    use super::*;

    pub trait SealedIntoBackend {
        #[allow(private_interfaces, reason = "the trait is sealed, and not called elsewhere")]
        fn into_backend(self) -> Arc<dyn LayerBackend>;
    }
}

impl sealed::SealedIntoBackend for AnyLimiter {
    #[allow(private_interfaces, reason = "the trait is sealed, and not called elsewhere")]
    fn into_backend(self) -> Arc<dyn LayerBackend> {
        Arc::new(OpenBackend::new(self))
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
        limiter
    };
}
