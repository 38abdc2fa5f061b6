//! Who decides: the limiter of one policy, or of a plan.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tidegate_http::{Answer, Fields, RequestFault, Stencil};
use tidegate_limiter::config::LegacyHeaders;
use tidegate_limiter::{
    Cost, Decision, Fingerprint, Key, Limiter, Owed, Plan, PlanLimiter, Source, Store,
};

use crate::RequestHead;
use crate::attributes::{Attribute, attributes};
use crate::config::Config;
use crate::warning;

/// A limiter without its type.
pub(crate) trait Backend: Send + Sync {
    /// What can be said about a request without waiting. What is decided is left in its place: moving
    /// it about would take as long as deciding.
    fn glance(&self, head: &RequestHead<'_>, config: &Config, place: &mut Decided) -> Glance;

    /// The decision, what the client hears of it, and the question back.
    fn decide(self: Arc<Self>, question: Question) -> Boxed<Decided>;

    /// Gives back what a decision took: the response does not count.
    fn undo(self: Arc<Self>, question: Question, decision: Decision) -> Boxed<()>;

    /// What there is to do if the response counts, where not all of them do.
    fn confirm(self: Arc<Self>, question: Question, decision: Decision) -> Option<Boxed<()>>;
}

pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How a request stands at first sight.
#[derive(Debug)]
pub(crate) enum Glance {
    /// It may happen: nothing limits it, or nobody wants to hear more of it than that.
    Passes,
    /// The decision about it is there.
    Decided,
    /// The decision takes a while.
    Open(Question),
    /// It could be understood in two ways.
    Refused(RequestFault),
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
    Key(Caller),
    /// With the plan that wants to know them: another may take its place meanwhile.
    Attributes(Arc<Plan>, Vec<Attribute>),
}

/// Who is counted, and what that is called if the store calls keys by names.
#[derive(Debug)]
struct Caller {
    print: Fingerprint,
    name: Option<Box<str>>,
}

impl Key for Caller {
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
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    pub(crate) told: Told,
    /// Where the response tells whether the request counts.
    pub(crate) question: Option<Box<Question>>,
}

impl Decided {
    /// Nothing so far.
    pub(crate) fn nothing() -> Self {
        let decision = Decision::unsettled(true, Source::None);
        Self { decision, told: Told::default(), question: None }
    }
}

/// What to tell the client of a decision.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) fields: Fields,
    /// What to answer instead of the service, if it is a denial.
    pub(crate) denial: Option<Box<Response<Bytes>>>,
}

impl Told {
    #[inline(always)]
    fn tell(&mut self, answer: &Answer<'_, '_>, question: &Question) {
        let is_denied = !answer.decision().is_allowed();
        if question.tells || is_denied {
            self.fields.tell(answer);
            if let Some(unit) = question.legacy_headers() {
                self.fields.tell_legacy(answer, unit);
            }
        }
        if is_denied {
            self.denial = Some(Box::new(tidegate_http::plain_denial(answer)));
        }
    }
}

/// By a key.
struct Keyed<S> {
    limiter: Arc<Limiter<S>>,
    stencils: Vec<&'static Stencil>,
}

impl<S: Store> Keyed<S> {
    fn new(limiter: Arc<Limiter<S>>) -> Self {
        let stencils = Stencil::each_of(limiter.policy());
        Self { limiter, stencils }
    }

    #[inline(always)]
    fn caller(
        &self,
        head: &RequestHead<'_>,
        config: &Config,
    ) -> Result<Option<Caller>, RequestFault> {
        let look = config.look(head);
        let Some(print) = config.key.print(look, self.limiter.policy())? else { return Ok(None) };
        let name = match self.limiter.store().names_keys() {
            true => config.key.name(look)?.map(Into::into),
            false => None,
        };
        Ok(Some(Caller { print, name }))
    }

    #[inline(always)]
    fn tell(&self, decided: &mut Decided, question: &Question) {
        let answer = Answer::of_policy(self.limiter.policy(), &decided.decision);
        decided.told.tell(&answer.with_stencils(&self.stencils), question);
    }
}

impl<S: Store + 'static> Backend for Keyed<S> {
    fn glance(&self, head: &RequestHead<'_>, config: &Config, place: &mut Decided) -> Glance {
        let key = match self.caller(head, config) {
            Ok(Some(key)) => key,
            Ok(None) => return Glance::Passes,
            Err(fault) => return Glance::Refused(fault),
        };
        let cost = config.cost_of(head);
        let is_decided = self.limiter.try_check_into(&key, cost, &mut place.decision);
        if is_decided && place.decision.is_allowed() && config.is_silent() {
            return Glance::Passes;
        }
        let question = Question::new(Subject::Key(key), cost, config);
        if !is_decided {
            return Glance::Open(question);
        }
        self.tell(place, &question);
        place.question = question.kept();
        Glance::Decided
    }

    fn decide(self: Arc<Self>, question: Question) -> Boxed<Decided> {
        Box::pin(async move {
            let mut decided = Decided::nothing();
            if let Some(key) = question.key() {
                decided.decision = self.limiter.check_n(key, question.cost).await;
                self.tell(&mut decided, &question);
            }
            decided.question = question.kept();
            decided
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
    fn glance(&self, head: &RequestHead<'_>, config: &Config, place: &mut Decided) -> Glance {
        let plan = self.plan();
        let attributes = match attributes(&plan, head, config) {
            Ok(attributes) => attributes,
            Err(fault) => return Glance::Refused(fault),
        };
        let subject = Subject::Attributes(plan, attributes);
        let question = Question::new(subject, config.cost_of(head), config);
        let decision = question.owed().and_then(|owed| {
            let decision = self.settle_at_once(&owed)?;
            place.told.tell(&Answer::of_owed(&owed, &decision), &question);
            Some(decision)
        });
        match decision {
            Some(decision) if decision.is_allowed() && config.is_silent() => Glance::Passes,
            Some(decision) => {
                place.decision = decision;
                place.question = question.kept();
                Glance::Decided
            }
            None => Glance::Open(question),
        }
    }

    fn decide(self: Arc<Self>, question: Question) -> Boxed<Decided> {
        Box::pin(async move {
            let mut decided = Decided::nothing();
            if let Some(owed) = question.owed() {
                decided.decision = self.settle(&owed).await;
                decided.told.tell(&Answer::of_owed(&owed, &decided.decision), &question);
            }
            decided.question = question.kept();
            decided
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

    /// For later, if there is anything left to ask then.
    fn kept(self) -> Option<Box<Self>> {
        self.is_counted_later.then(|| Box::new(self))
    }

    const fn key(&self) -> Option<&Caller> {
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
