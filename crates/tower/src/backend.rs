//! Who decides: the limiter of one policy, or of a plan.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tidegate::{Cost, Decision, Limiter, Owed, OwnedKey, Plan, PlanLimiter, Source, Store};
use tidegate_http::{Answer, Fields};

use crate::RequestHead;
use crate::attributes::attributes;
use crate::config::Config;

/// A limiter without its type.
pub(crate) trait Backend: Send + Sync {
    /// What to ask about a request; `None` if nothing limits it.
    fn question(&self, head: RequestHead<'_>, config: &Config) -> Option<Question>;

    /// The answer, where that takes no waiting.
    fn decide_now(&self, question: &Question) -> Option<Outcome>;

    /// The answer, and the question back.
    fn decide(self: Arc<Self>, question: Question) -> Boxed<(Outcome, Question)>;

    /// Gives back what an allowing answer took.
    fn refund(self: Arc<Self>, question: Question) -> Boxed<()>;
}

pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Who asks, and for how much.
#[derive(Debug)]
pub(crate) struct Question {
    subject: Subject,
    cost: Cost,
    /// Whether the client hears of what is allowed, too.
    tells: bool,
}

#[derive(Debug)]
enum Subject {
    Key(OwnedKey),
    /// With the plan that wants to know them: another may take its place meanwhile.
    Attributes(Arc<Plan>, Vec<(Box<str>, Vec<u8>)>),
}

/// A decision, and what to tell the client of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) decision: Decision,
    pub(crate) fields: Fields,
    /// What to answer instead of the service, if it is a denial.
    pub(crate) denial: Option<Box<Response<Bytes>>>,
}

impl Outcome {
    fn of(answer: &Answer<'_, '_>, tells: bool) -> (Fields, Option<Box<Response<Bytes>>>) {
        let is_denied = !answer.decision().is_allowed();
        let fields = if tells || is_denied { Fields::of(answer) } else { Fields::default() };
        (fields, is_denied.then(|| Box::new(tidegate_http::denial(answer))))
    }

    fn unlimited() -> Self {
        let decision = Decision::unsettled(true, Source::None);
        Self { decision, fields: Fields::default(), denial: None }
    }

    fn of_policy(limiter: &Limiter<impl Store>, decision: Decision, tells: bool) -> Self {
        let (fields, denial) = Self::of(&Answer::of_policy(limiter.policy(), &decision), tells);
        Self { decision, fields, denial }
    }
}

/// By a key.
impl<S: Store + 'static> Backend for Limiter<S> {
    fn question(&self, head: RequestHead<'_>, config: &Config) -> Option<Question> {
        let key = config.key.of(head, &config.warnings)?;
        Some(Question::new(Subject::Key(key), head, config))
    }

    fn decide_now(&self, question: &Question) -> Option<Outcome> {
        let decision = self.try_check_n(question.key()?, question.cost)?;
        Some(Outcome::of_policy(self, decision, question.tells))
    }

    fn decide(self: Arc<Self>, question: Question) -> Boxed<(Outcome, Question)> {
        Box::pin(async move {
            let outcome = match question.key() {
                Some(key) => {
                    let decision = self.check_n(key, question.cost).await;
                    Outcome::of_policy(&self, decision, question.tells)
                }
                None => Outcome::unlimited(),
            };
            (outcome, question)
        })
    }

    fn refund(self: Arc<Self>, question: Question) -> Boxed<()> {
        Box::pin(async move {
            if let Some(key) = question.key() {
                Self::refund(&self, key, question.cost).await;
            }
        })
    }
}

/// By attributes.
impl<S: Store + 'static> Backend for PlanLimiter<S> {
    fn question(&self, head: RequestHead<'_>, config: &Config) -> Option<Question> {
        let plan = self.plan();
        let attributes = attributes(&plan, head, config);
        Some(Question::new(Subject::Attributes(plan, attributes), head, config))
    }

    fn decide_now(&self, _: &Question) -> Option<Outcome> {
        None
    }

    fn decide(self: Arc<Self>, question: Question) -> Boxed<(Outcome, Question)> {
        Box::pin(async move {
            let outcome = match question.owed() {
                Some(owed) => {
                    let decision = self.settle(&owed).await;
                    let (fields, denial) =
                        Outcome::of(&Answer::of_owed(&owed, &decision), question.tells);
                    Outcome { decision, fields, denial }
                }
                None => Outcome::unlimited(),
            };
            (outcome, question)
        })
    }

    fn refund(self: Arc<Self>, question: Question) -> Boxed<()> {
        Box::pin(async move {
            if let Some(owed) = question.owed() {
                // A store that does not answer gives nothing back, and nobody waits for that.
                let _ = Self::refund(&self, &owed).await;
            }
        })
    }
}

/// Each backend is asked its own questions only.
impl Question {
    fn new(subject: Subject, head: RequestHead<'_>, config: &Config) -> Self {
        Self { subject, cost: config.cost_of(head), tells: config.tells() }
    }

    const fn key(&self) -> Option<&OwnedKey> {
        match &self.subject {
            Subject::Key(key) => Some(key),
            Subject::Attributes(..) => None,
        }
    }

    fn owed(&self) -> Option<Owed<'_>> {
        match &self.subject {
            Subject::Attributes(plan, values) => Some(plan.charges(&values[..], self.cost)),
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
    ($($limiter:ident),*) => {$(
        impl<S: Store + 'static> sealed::IntoBackend for $limiter<S> {
            #[allow(private_interfaces, reason = "the trait is sealed, and nobody else calls this")]
            fn into_backend(self) -> Arc<dyn Backend> {
                Arc::new(self)
            }
        }

        impl<S: Store + 'static> sealed::IntoBackend for Arc<$limiter<S>> {
            #[allow(private_interfaces, reason = "the trait is sealed, and nobody else calls this")]
            fn into_backend(self) -> Arc<dyn Backend> {
                self
            }
        }
    )*};
}

into_backend!(Limiter, PlanLimiter);
