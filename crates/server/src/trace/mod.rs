//! What a request did and how long that took, for an OpenTelemetry collector.
//!
//! A sampled request has a [`TraceSpan`] from its head to its answer. Transports [begin](Tracer::begin)
//! and [end](Tracer::end) it, and answer [`within`] it, so that [`App`](crate::App) finds it when
//! it decides. Finished spans wait in a queue of fixed size until the [`SpanExporter`] takes them
//! along; nobody waits for it. Without a tracer, all that a request pays is one look at an
//! `Option`.
//!
//! A span says which policy decided, what, why, on whose word, and how long that took. It never
//! says who asked: it contains no key, attribute, path or header of a request.

mod collector;
mod current;
mod encode;
mod exporter;
mod queue;
mod sampling_ratio;
mod span;
mod trace_parent;

use std::sync::Arc;

pub use collector::{CollectorError, TraceCollector};
pub(crate) use current::{DecisionTimer, decision_timer};
pub use current::{note, within};
pub use exporter::SpanExporter;
pub(crate) use queue::{SpanCounters, SpanQueue};
pub use sampling_ratio::SamplingRatio;
pub use span::TraceSpan;
pub use trace_parent::TraceParent;

/// Samples the requests to trace, and takes their spans.
///
/// ```
/// use tidegate_server::trace::{TraceCollector, SamplingRatio, TraceParent, Tracer};
///
/// let (tracer, exporter) = Tracer::new(SamplingRatio::ALL, "tidegate");
/// let caller = TraceParent::parse(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
/// let span = tracer.begin("POST /v1/check", caller).ok_or("all are drawn")?;
/// tracer.end(span);
/// // On a runtime, for as long as there are spans: `exporter.run(collector, stop)`.
/// let collector: TraceCollector = "http://127.0.0.1:4317".parse()?;
/// # drop((exporter, collector));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Tracer {
    ratio: SamplingRatio,
    queue: Arc<SpanQueue>,
}

impl Tracer {
    /// A tracer, and the exporter that delivers its spans to a collector, under the name of this
    /// service.
    pub fn new(ratio: SamplingRatio, service: &str) -> (Self, SpanExporter) {
        let queue = Arc::new(SpanQueue::new());
        let exporter = SpanExporter::new(Arc::clone(&queue), service);
        (Self { ratio, queue }, exporter)
    }

    /// A span, if the caller's is recorded; for a caller without one, if the request is sampled.
    pub fn begin(&self, name: &'static str, caller: Option<TraceParent>) -> Option<Box<TraceSpan>> {
        let trace = match caller {
            Some(caller) if !caller.is_sampled() => return None,
            Some(caller) => caller.trace(),
            None => self.sample_trace()?,
        };
        Some(TraceSpan::begin(name, trace, caller))
    }

    /// The same for an untrusted caller: it may say what its request is part of, but cannot cause
    /// more to be recorded than was meant to be.
    pub fn begin_untrusted(
        &self,
        name: &'static str,
        caller: Option<TraceParent>,
    ) -> Option<Box<TraceSpan>> {
        match caller {
            Some(caller) if !self.ratio.samples(caller.trace()) => None,
            caller => self.begin(name, caller),
        }
    }

    /// A new trace, if it is sampled.
    fn sample_trace(&self) -> Option<u128> {
        let trace = fastrand::u128(1..);
        self.ratio.samples(trace).then_some(trace)
    }

    /// Takes a finished span. If there is no room for it, it is counted and dropped.
    pub fn end(&self, span: Box<TraceSpan>) {
        self.queue.push(*span.finish());
    }

    /// What became of all spans.
    pub(crate) fn counts(&self) -> &SpanCounters {
        self.queue.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(flags: &str) -> Option<TraceParent> {
        let text = format!("00-ffffffffffffffffffffffffffffffff-00f067aa0ba902b7-{flags}");
        TraceParent::parse(text.as_bytes())
    }

    #[test]
    fn a_caller_decides_and_chance_for_whoever_has_none() {
        let (all, _) = Tracer::new(SamplingRatio::ALL, "test");
        let (none, _) = Tracer::new(SamplingRatio::NONE, "test");
        assert!(all.begin("a", None).is_some() && none.begin("a", None).is_none());
        assert!(all.begin("a", caller("01")).is_some() && none.begin("a", caller("01")).is_some());
        assert!(all.begin("a", caller("00")).is_none());
    }

    #[test]
    fn a_stranger_makes_nobody_record_more_than_was_meant() {
        let (half, _) = Tracer::new("0.5".parse().unwrap(), "test");
        assert!(half.begin("a", caller("01")).is_some());
        assert!(half.begin_untrusted("a", caller("01")).is_none(), "not drawn");
        let (all, _) = Tracer::new(SamplingRatio::ALL, "test");
        assert!(all.begin_untrusted("a", caller("01")).is_some());
        assert!(all.begin_untrusted("a", caller("00")).is_none());
    }
}
