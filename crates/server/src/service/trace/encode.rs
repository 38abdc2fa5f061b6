//! Encodes spans as OTLP messages for a collector.

use tidegate_wire::otlp::{
    ExportTraceServiceRequest, InstrumentationScope, KeyValue, Resource, ResourceSpans, ScopeSpans,
    Span as Message, SpanKind, Status, StatusCode, Value,
};

use super::TraceSpan;

/// The resource that reports the spans: this process, under its service name.
pub(super) fn resource(service: &str) -> Resource {
    let text = |name, text: &str| KeyValue::new(name, Value::StringValue(text.to_owned()));
    let attributes = vec![
        text("service.name", service),
        text("service.version", env!("CARGO_PKG_VERSION")),
        // Distinguishes instances of one service.
        text("service.instance.id", &format!("{:032x}", fastrand::u128(..))),
    ];
    Resource { attributes }
}

pub(super) fn request(resource: &Resource, spans: Vec<TraceSpan>) -> ExportTraceServiceRequest {
    let (name, version) = ("tidegate".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let scope = Some(InstrumentationScope { name, version });
    let spans = spans.into_iter().map(message).collect();
    let scope_spans = vec![ScopeSpans { scope, spans }];
    let resource = Some(resource.clone());
    ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { resource, scope_spans }] }
}

fn message(span: TraceSpan) -> Message {
    let started = span.started.as_micros().saturating_mul(1_000);
    let parent = (span.parent != 0).then(|| span.parent.to_be_bytes().to_vec());
    let attribute = |(name, value): (&str, Value)| KeyValue::new(name, value);
    Message {
        trace_id: span.trace.to_be_bytes().to_vec(),
        span_id: span.id.to_be_bytes().to_vec(),
        parent_span_id: parent.unwrap_or_default(),
        name: span.name.into_owned(),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: started,
        end_time_unix_nano: started.saturating_add(span.nanos),
        attributes: span.attributes.into_iter().map(attribute).collect(),
        status: span.is_failed.then(|| Status { code: StatusCode::Error.into() }),
    }
}
