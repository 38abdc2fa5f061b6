//! The span of one request, with its attributes and decisions.

use std::borrow::Cow;

use smallvec::SmallVec;
use tidegate::{Clock as _, Decision, DecisionReason, Stopwatch, SystemClock, Timestamp};
use tidegate_wire::otlp::Value;

use super::TraceParent;

/// The span of a request, in progress or finished.
#[derive(Debug)]
pub struct TraceSpan {
    pub(super) name: Cow<'static, str>,
    pub(super) trace: u128,
    pub(super) id: u64,
    /// The span of the caller; 0 if there is none.
    pub(super) parent: u64,
    pub(super) started: Timestamp,
    watch: Stopwatch,
    pub(super) nanos: u64,
    pub(super) is_failed: bool,
    pub(super) attributes: SmallVec<[(&'static str, Value); 8]>,
    decided: SpanDecisions,
}

/// The decisions of a span. One of them represents all: the first denial, or else the first decision.
#[derive(Debug, Default)]
struct SpanDecisions {
    decisions: u32,
    denied: u32,
    nanos: u64,
    outcome: Option<SpanOutcome>,
}

#[derive(Debug)]
struct SpanOutcome {
    policy: Option<String>,
    is_allowed: bool,
    reason: &'static str,
    source: &'static str,
}

impl TraceSpan {
    pub(super) fn begin(name: &'static str, trace: u128, caller: Option<TraceParent>) -> Box<Self> {
        // Reads the wall clock again, since collectors compare it with the clocks of other machines.
        let started = SystemClock::new().now();
        let mut span = Self::begin_at(started, Stopwatch::start(), name, trace);
        span.parent = caller.map_or(0, TraceParent::span);
        span
    }

    /// A span without a caller, which began at this time.
    pub(super) fn begin_at(
        started: Timestamp,
        watch: Stopwatch,
        name: &'static str,
        trace: u128,
    ) -> Box<Self> {
        Box::new(Self {
            name: name.into(),
            trace,
            id: fastrand::u64(1..),
            parent: 0,
            started,
            watch,
            nanos: 0,
            is_failed: false,
            attributes: SmallVec::new(),
            decided: SpanDecisions::default(),
        })
    }

    /// The context for a service that is called on behalf of this request.
    pub const fn context(&self) -> TraceParent {
        TraceParent::new(self.trace, self.id, true)
    }

    /// Replaces the name, for a name that is known only later.
    pub fn rename(&mut self, name: String) {
        self.name = name.into();
    }

    /// Adds an attribute. The text must be of bounded length, and contain nothing from a request.
    pub fn text(&mut self, name: &'static str, text: &str) {
        self.attributes.push((name, Value::StringValue(text.to_owned())));
    }

    /// The same for a number.
    pub fn number(&mut self, name: &'static str, number: u64) {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.attributes.push((name, Value::IntValue(number)));
    }

    /// Records the status of the answer. Only a server error marks the span as failed.
    pub fn set_http_status(&mut self, status: http::StatusCode) {
        self.number("http.response.status_code", status.as_u16().into());
        self.is_failed |= status.is_server_error();
    }

    /// Marks the span as failed.
    pub(crate) const fn mark_failed(&mut self) {
        self.is_failed = true;
    }

    /// Records a decision, and how long it took.
    pub(crate) fn record_decision(
        &mut self,
        policy: Option<&str>,
        reason: DecisionReason,
        decision: &Decision,
        nanos: u64,
    ) {
        let (decided, is_allowed) = (&mut self.decided, decision.is_allowed());
        decided.decisions = decided.decisions.saturating_add(1);
        decided.denied = decided.denied.saturating_add(u32::from(!is_allowed));
        decided.nanos = decided.nanos.saturating_add(nanos);
        if decided.outcome.as_ref().is_none_or(|outcome| outcome.is_allowed && !is_allowed) {
            let (reason, source) = (reason.name(), decision.source().name());
            let policy = policy.map(str::to_owned);
            decided.outcome = Some(SpanOutcome { policy, is_allowed, reason, source });
        }
    }

    /// Ends the span, and adds the attributes of its decisions.
    pub(super) fn finish(mut self: Box<Self>) -> Box<Self> {
        self.nanos = self.watch.nanos();
        let SpanDecisions { decisions, denied, nanos, outcome } = std::mem::take(&mut self.decided);
        let Some(outcome) = outcome else { return self };
        if let Some(policy) = outcome.policy {
            self.attributes.push(("tidegate.policy", Value::StringValue(policy)));
        }
        self.attributes.push(("tidegate.allowed", Value::BoolValue(outcome.is_allowed)));
        self.text("tidegate.reason", outcome.reason);
        self.text("tidegate.source", outcome.source);
        self.number("tidegate.store_ns", nanos);
        if decisions > 1 {
            self.number("tidegate.decisions", decisions.into());
            self.number("tidegate.denied", denied.into());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::DecisionSource;

    #[test]
    fn a_denial_describes_the_whole_span() {
        let mut span = TraceSpan::begin("batch", 1, None);
        let allowed = Decision::without_verdicts(true, DecisionSource::Fallback);
        let denied = Decision::without_verdicts(false, DecisionSource::Fallback);
        for (policy, decision) in
            [("one", &allowed), ("two", &denied), ("three", &denied), ("four", &allowed)]
        {
            span.record_decision(Some(policy), decision.reason(), decision, 10);
        }
        let span = span.finish();
        let found = |name| span.attributes.iter().find(|(it, _)| *it == name).map(|it| &it.1);
        assert_eq!(found("tidegate.policy"), Some(&Value::StringValue("two".to_owned())));
        assert_eq!(found("tidegate.allowed"), Some(&Value::BoolValue(false)));
        assert_eq!(found("tidegate.decisions"), Some(&Value::IntValue(4)));
        assert_eq!(found("tidegate.denied"), Some(&Value::IntValue(2)));
        assert_eq!(found("tidegate.store_ns"), Some(&Value::IntValue(40)));
    }

    #[test]
    fn nothing_is_said_of_decisions_where_there_was_none() {
        assert!(TraceSpan::begin("a", 1, None).finish().attributes.is_empty());
    }
}
