//! The decision functions of [`App`]. Every transport decides here, so that each decision is
//! counted in the metrics and traced.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tidegate::{
    Charge, ChargeIntent, Decision, Promise, RequestCharges, Stopwatch, Store, Verdict,
};
use tidegate_http::RateLimitAnswer;

use crate::App;
use crate::service::metrics::PolicyCounters;
use crate::service::trace;

impl<S: Store> App<S> {
    /// Decides about the charges of a request as [`PlanLimiter::decide`] does, and counts and traces the
    /// decision when it is there. Whatever a request does to be admitted, it counts as one.
    ///
    /// [`PlanLimiter::decide`]: tidegate::PlanLimiter::decide
    pub fn decide<'a>(
        &'a self,
        charges: &'a RequestCharges<'_>,
        intent: ChargeIntent<'a>,
    ) -> Promise<Decision, impl Future<Output = Decision> + Send> {
        let observer = DecisionObserver::begin(self, charges, intent);
        match self.limiter().decide(charges, intent) {
            Promise::Ready(decision) => {
                observer.finish(&decision);
                Promise::Ready(decision)
            }
            Promise::Later(deciding) => {
                Promise::Later(ObservedDecision { deciding, observer: Some(observer) })
            }
        }
    }

    /// Decides about each charge separately, without waiting. All charges belong to `policy`, or to
    /// limits that came with requests if it is `None`; `name` is that of their spans. Returns false if the
    /// decisions have to wait: then nothing was charged.
    pub(crate) fn decide_each<'c>(
        &self,
        name: &'static str,
        policy: Option<&PolicyCounters>,
        charges: impl IntoIterator<Item = Charge<'c>>,
        mut report: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        let mut tally = self.metrics().tally(policy);
        let group = self.tracer().map(|tracer| tracer.begin_group(name));
        let is_done = self.limiter().decide_each(charges, |charge, verdict| {
            tally.add(charge, verdict);
            if let Some(group) = &group {
                let policy = policy.map(|counters| &*counters.name);
                group.record(policy, charge, verdict);
            }
            report(charge, verdict);
        });
        tally.finish();
        is_done
    }
}

/// Counts and traces one decision.
struct DecisionObserver<'a, 'p, S> {
    app: &'a App<S>,
    charges: &'a RequestCharges<'p>,
    intent: ChargeIntent<'a>,
    /// Times the decision for the metrics, if it is sampled.
    watch: Option<Stopwatch>,
    /// Times the decision for the span of its request, if it has one.
    timer: Option<Stopwatch>,
}

impl<'a, 'p, S: Store> DecisionObserver<'a, 'p, S> {
    fn begin(app: &'a App<S>, charges: &'a RequestCharges<'p>, intent: ChargeIntent<'a>) -> Self {
        let timer = app.tracer().and_then(|_| trace::note(|_| Stopwatch::start()));
        Self { app, charges, intent, watch: app.metrics().begin(), timer }
    }

    fn finish(self, decision: &Decision) {
        let Self { app, charges, intent, watch, timer } = self;
        if !intent.is_final(decision) {
            return;
        }
        app.metrics().observe(charges, decision, watch.map(|it| intent.decision_nanos(it)));
        if let Some(timer) = timer {
            let answer = RateLimitAnswer::of_charges(charges, decision);
            let nanos = intent.decision_nanos(timer);
            trace::note(|span| {
                span.record_decision(answer.policy(), answer.reason(), decision, nanos);
            });
        }
    }
}

pin_project! {
    /// A decision that is observed when it is there.
    struct ObservedDecision<'a, 'p, S, F> {
        #[pin]
        deciding: F,
        observer: Option<DecisionObserver<'a, 'p, S>>,
    }
}

impl<S: Store, F: Future<Output = Decision>> Future for ObservedDecision<'_, '_, S, F> {
    type Output = Decision;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Decision> {
        let this = self.project();
        let decision = ready!(this.deciding.poll(cx));
        if let Some(observer) = this.observer.take() {
            observer.finish(&decision);
        }
        Poll::Ready(decision)
    }
}
