//! Who decides: the limiter of one policy, or of a plan.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tidegate_http::{Ambiguous, Answer, Fields, Stencil};
use tidegate_limiter::config::LegacyHeaders;
use tidegate_limiter::{
    Cost, Decision, Fingerprint, Limiter, Owed, Plan, PlanLimiter, Source, Store,
};

use crate::RequestHead;
use crate::attributes::{Attribute, attributes};
use crate::config::Config;
use crate::warning;

/// A limiter without its type.
pub(crate) trait Backend: Send + Sync {
    /// What can be said about a request without waiting.
    fn glance(&self, head: RequestHead<'_>, config: &Config) -> Glance;

    /// The decision, what the client hears of it, and the question back.
    fn decide(self: Arc<Self>, question: Question) -> Boxed<(Decision, Told, Question)>;

    /// Gives back what a decision took: the response does not count.
    fn undo(self: Arc<Self>, question: Question, decision: Decision) -> Boxed<()>;

    /// What there is to do if the response counts, where not all of them do.
    fn confirm(self: Arc<Self>, question: Question, decision: Decision) -> Option<Boxed<()>>;
}

pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How a request stands at first sight.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each decision")]
#[derive(Debug)]
pub(crate) enum Glance {
    /// It may happen: nothing limits it, or nobody wants to hear more of it than that.
    Passes,
    /// The decision about it is there, and what the client hears of it.
    Decided(Decision, Told, Question),
    /// The decision takes a while.
    Open(Question),
    /// It could be understood in two ways.
    Refused(Ambiguous),
}

/// Who asks, and for how much.
#[derive(Debug)]
pub(crate) struct Question {
    subject: Subject,
    cost: Cost,
    /// Whether the client hears of what is allowed, too.
    tells: bool,
    /// Whether the response tells if the request counts.
    is_counted_later: bool,
}

#[derive(Debug)]
enum Subject {
    Key(Fingerprint),
    /// With the plan that wants to know them: another may take its place meanwhile.
    Attributes(Arc<Plan>, Vec<Attribute>),
}

/// What to tell the client of a decision.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) fields: Fields,
    /// What to answer instead of the service, if it is a denial.
    pub(crate) denial: Option<Box<Response<Bytes>>>,
}

impl Told {
    fn of(answer: &Answer<'_, '_>, question: &Question) -> Self {
        let is_denied = !answer.decision().is_allowed();
        let mut fields = Fields::default();
        if question.tells || is_denied {
            fields = Fields::of(answer);
            if let Some(unit) = question.legacy_headers() {
                fields = fields.with_legacy(answer, unit);
            }
        }
        let denial = is_denied.then(|| Box::new(tidegate_http::plain_denial(answer)));
        Self { fields, denial }
    }
}

/// By a key.
struct Keyed<S> {
    limiter: Arc<Limiter<S>>,
    stencils: Vec<Stencil>,
}

impl<S: Store> Keyed<S> {
    fn new(limiter: Arc<Limiter<S>>) -> Self {
        let stencils = Stencil::each_of(limiter.policy());
        Self { limiter, stencils }
    }

    fn tell(&self, decision: &Decision, question: &Question) -> Told {
        let answer = Answer::of_policy(self.limiter.policy(), decision);
        Told::of(&answer.with_stencils(&self.stencils), question)
    }
}

impl<S: Store + 'static> Backend for Keyed<S> {
    fn glance(&self, head: RequestHead<'_>, config: &Config) -> Glance {
        let key = match config.key.print(config.look(head), self.limiter.policy()) {
            Ok(Some(key)) => key,
            Ok(None) => return Glance::Passes,
            Err(ambiguous) => return Glance::Refused(ambiguous),
        };
        let cost = config.cost_of(head);
        let question = || Question::new(Subject::Key(key), cost, config);
        match self.limiter.try_check_n(&key, cost) {
            Some(decision) if decision.is_allowed() && config.is_silent() => Glance::Passes,
            Some(decision) => {
                let question = question();
                let told = self.tell(&decision, &question);
                Glance::Decided(decision, told, question)
            }
            None => Glance::Open(question()),
        }
    }

    fn decide(self: Arc<Self>, question: Question) -> Boxed<(Decision, Told, Question)> {
        Box::pin(async move {
            let decision = match question.key() {
                Some(key) => self.limiter.check_n(key, question.cost).await,
                None => Decision::unsettled(true, Source::None),
            };
            let told = self.tell(&decision, &question);
            (decision, told, question)
        })
    }

    fn undo(self: Arc<Self>, question: Question, decision: Decision) -> Boxed<()> {
        Box::pin(async move {
            if let Some(key) = question.key() {
                // A store that does not answer gives nothing back, and nobody waits for that.
                let _ = self.limiter.undo(key, question.cost, &decision).await;
            }
        })
    }

    fn confirm(self: Arc<Self>, _: Question, _: Decision) -> Option<Boxed<()>> {
        None
    }
}

/// By attributes.
impl<S: Store + 'static> Backend for PlanLimiter<S> {
    fn glance(&self, head: RequestHead<'_>, config: &Config) -> Glance {
        let plan = self.plan();
        let attributes = match attributes(&plan, head, config) {
            Ok(attributes) => attributes,
            Err(ambiguous) => return Glance::Refused(ambiguous),
        };
        let subject = Subject::Attributes(plan, attributes);
        let question = Question::new(subject, config.cost_of(head), config);
        let decided = question.owed().and_then(|owed| {
            let decision = self.settle_at_once(&owed)?;
            let told = Told::of(&Answer::of_owed(&owed, &decision), &question);
            Some((decision, told))
        });
        match decided {
            Some((decision, _)) if decision.is_allowed() && config.is_silent() => Glance::Passes,
            Some((decision, told)) => Glance::Decided(decision, told, question),
            None => Glance::Open(question),
        }
    }

    fn decide(self: Arc<Self>, question: Question) -> Boxed<(Decision, Told, Question)> {
        Box::pin(async move {
            let (decision, told) = match question.owed() {
                Some(owed) => {
                    let decision = self.settle(&owed).await;
                    let told = Told::of(&Answer::of_owed(&owed, &decision), &question);
                    (decision, told)
                }
                None => (Decision::unsettled(true, Source::None), Told::default()),
            };
            (decision, told, question)
        })
    }

    fn undo(self: Arc<Self>, question: Question, decision: Decision) -> Boxed<()> {
        Box::pin(async move {
            if let Some(owed) = question.owed() {
                let _ = Self::undo(&self, &owed, &decision).await;
            }
        })
    }

    /// Blocks whoever has used up what a policy with `block_for` allows. A limit that took nothing has
    /// nothing to say about that: to it there was no request.
    fn confirm(self: Arc<Self>, question: Question, decision: Decision) -> Option<Boxed<()>> {
        Some(Box::pin(async move {
            let Some(owed) = question.owed() else { return };
            let charges = owed.charges();
            let is_paid = |index: &usize| {
                let is_peek = charges.get(*index).is_none_or(|charge| charge.cost().is_peek());
                !is_peek && decision.took(charges, *index)
            };
            let paid = owed.part((0..charges.len()).filter(is_paid));
            self.block_if_used_up(&paid).await;
        }))
    }
}

/// Each backend is asked its own questions only.
impl Question {
    const fn new(subject: Subject, cost: Cost, config: &Config) -> Self {
        let (tells, is_counted_later) = (config.tells(), config.count_if.is_some());
        Self { subject, cost, tells, is_counted_later }
    }

    const fn key(&self) -> Option<&Fingerprint> {
        match &self.subject {
            Subject::Key(key) => Some(key),
            Subject::Attributes(..) => None,
        }
    }

    /// The unit of `X-RateLimit-Reset`, if the plan wants such fields.
    fn legacy_headers(&self) -> Option<LegacyHeaders> {
        match &self.subject {
            Subject::Attributes(plan, _) => plan.settings().legacy_headers(),
            Subject::Key(_) => None,
        }
    }

    fn owed(&self) -> Option<Owed<'_>> {
        match &self.subject {
            Subject::Attributes(plan, values) => {
                let owed = plan.charges(&values[..], self.cost);
                Some(if self.is_counted_later { owed.counted_later() } else { owed })
            }
            Subject::Key(_) => None,
        }
    }
}

/// What [`RateLimitLayer::limiter`](crate::RateLimitLayer::limiter) takes: a [`Limiter`], a
/// [`PlanLimiter`], or an [`Arc`] of one.
pub trait IntoBackend: sealed::IntoBackend {}

impl<T: sealed::IntoBackend> IntoBackend for T {}

pub(crate) mod sealed {
    use super::*;

    pub trait IntoBackend {
        #[allow(private_interfaces, reason = "the trait is sealed, and nobody else calls this")]
        fn into_backend(self) -> Arc<dyn Backend>;
    }
}

macro_rules! into_backend {
    ($($limiter:ty, $limiter_in_arc:expr;)*) => {$(
        impl<S: Store + 'static> sealed::IntoBackend for Arc<$limiter> {
            #[allow(private_interfaces, reason = "the trait is sealed, and nobody else calls this")]
            fn into_backend(self) -> Arc<dyn Backend> {
                $limiter_in_arc(self)
            }
        }

        impl<S: Store + 'static> sealed::IntoBackend for $limiter {
            #[allow(private_interfaces, reason = "the trait is sealed, and nobody else calls this")]
            fn into_backend(self) -> Arc<dyn Backend> {
                $limiter_in_arc(Arc::new(self))
            }
        }
    )*};
}

into_backend! {
    Limiter<S>, |limiter| Arc::new(Keyed::new(limiter));
    PlanLimiter<S>, |limiter: Arc<PlanLimiter<S>>| {
        warning::about_a_plan(&limiter.plan());
        limiter
    };
}
