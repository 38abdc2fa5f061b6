//! Tracing: spans of sampled requests, exported to an OpenTelemetry collector.
//!
//! A sampled request has a [`TraceSpan`] from its head to its answer. Transports [begin](Tracer::begin)
//! and [end](Tracer::end) it, and answer [`within`] it, so that [`App`](crate::App) finds it when
//! it decides. Finished spans wait in a queue of fixed size for the [`SpanExporter`]; no request waits
//! for the export. Without a tracer, the only cost of a request is the check of an `Option`.
//!
//! A span records the policy, the decision, its reason and source, and how long it took. It never
//! identifies the client: it contains no key, attribute, path or header of a request.

mod collector;
mod current;
mod encode;
mod exporter;
mod group;
mod queue;
mod sampling_ratio;
mod span;
mod trace_parent;

use std::sync::Arc;

pub use collector::{CollectorError, TraceCollector};
pub use current::{note, within};
pub use exporter::SpanExporter;
pub(crate) use group::TraceGroup;
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
/// let span = tracer.begin("POST /v1/check", caller).ok_or("all are sampled")?;
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
    /// A tracer, and the exporter that sends its spans to a collector under this service name.
    pub fn new(ratio: SamplingRatio, service: &str) -> (Self, SpanExporter) {
        let queue = Arc::new(SpanQueue::new());
        let exporter = SpanExporter::new(Arc::clone(&queue), service);
        (Self { ratio, queue }, exporter)
    }

    /// Begins a span if the caller's span is recorded; without one, if the request is sampled.
    pub fn begin(&self, name: &'static str, caller: Option<TraceParent>) -> Option<Box<TraceSpan>> {
        let trace = match caller {
            Some(caller) if !caller.is_sampled() => return None,
            Some(caller) => caller.trace(),
            None => self.sample_trace()?,
        };
        Some(TraceSpan::begin(name, trace, caller))
    }

    /// The same for an untrusted caller: it can continue its trace, but cannot cause more traces to be
    /// recorded than the sampling ratio allows.
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

    /// Begins to trace decisions that are made together. Each is a request of its own.
    pub(crate) fn begin_group(&self, name: &'static str) -> TraceGroup<'_> {
        TraceGroup::begin(self, name)
    }

    /// The number of a new trace, if it is sampled.
    fn sample_trace(&self) -> Option<u128> {
        let trace = fastrand::u128(1..);
        self.ratio.samples(trace).then_some(trace)
    }

    /// Queues a finished span. If the queue is full, the span is counted and dropped.
    pub fn end(&self, span: Box<TraceSpan>) {
        self.queue.push(*span.finish());
    }

    /// Counts of all finished spans.
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
        assert!(half.begin_untrusted("a", caller("01")).is_none(), "not sampled");
        let (all, _) = Tracer::new(SamplingRatio::ALL, "test");
        assert!(all.begin_untrusted("a", caller("01")).is_some());
        assert!(all.begin_untrusted("a", caller("00")).is_none());
    }
}
