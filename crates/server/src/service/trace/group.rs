//! Traces decisions that are made together, such as those of a pipeline.

use tidegate::{
    Charge, Clock as _, Decision, DecisionSource, Stopwatch, SystemClock, Timestamp, Verdict,
};

use super::{TraceSpan, Tracer};

/// Decisions that are made together, each for a request of its own. Their spans begin when the group does,
/// and end with their own decision.
#[derive(Debug)]
pub(crate) struct TraceGroup<'t> {
    tracer: &'t Tracer,
    name: &'static str,
    started: Timestamp,
    watch: Stopwatch,
}

impl<'t> TraceGroup<'t> {
    pub(super) fn begin(tracer: &'t Tracer, name: &'static str) -> Self {
        Self { tracer, name, started: SystemClock::new().now(), watch: Stopwatch::start() }
    }

    /// Records the decision by a single limit, if its request is sampled. `policy` is the limit's, unless it
    /// came with the request.
    pub(crate) fn record(&self, policy: Option<&str>, charge: &Charge<'_>, verdict: &Verdict) {
        let Some(trace) = self.tracer.sample_trace() else { return };
        let decision = Decision::of_charges(&[*charge], DecisionSource::Store, |out| {
            out.push(*verdict);
            verdict.allowed || !charge.rule().enforced
        });
        let mut span = TraceSpan::begin_at(self.started, self.watch, self.name, trace);
        span.record_decision(policy, decision.reason(), &decision, self.watch.nanos());
        self.tracer.end(span);
    }
}
