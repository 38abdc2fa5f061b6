//! Routes a gRPC request to its service, with tracing and a deadline.

use std::pin::pin;
use std::time::Duration;

use http::{HeaderMap, Request};
use hyper::body::Incoming;
use tidegate::Store;
use tidegate_http::is_grpc_call;
use tokio::time::timeout;

use super::body::GrpcBody;
use super::refusal::GrpcRefusal;
use super::{GrpcListenerContext, GrpcResponse, message, should_rate_limit};
use crate::net::connection::ActiveRequest;
use crate::service::log::LogLevel;
use crate::service::trace::within;
use crate::transport::brief;
use crate::{ListenerKind, RefusalReason};

/// Answers any request, also an invalid one.
pub(super) async fn answer<S: Store>(
    context: &GrpcListenerContext<S>,
    request: Request<Incoming>,
    active: ActiveRequest,
) -> GrpcResponse {
    if !is_grpc_call(request.method(), request.headers()) {
        context.app.count_refusal(ListenerKind::Grpc, RefusalReason::Malformed);
        return GrpcRefusal::not_grpc();
    }
    match request.uri().path() {
        SHOULD_RATE_LIMIT => answer_traced(context, request).await,
        path => match context.tonic_services.find(path) {
            Some(service) => {
                service(request).await.map(|body| GrpcBody::Stream { body, _active: active })
            }
            None => {
                let refusal = GrpcRefusal::unimplemented(format!("no method {:?}", brief(path)));
                context.app.count_refusal(ListenerKind::Grpc, refusal.reason());
                refusal.into()
            }
        },
    }
}

/// Answers within a span, if the call is traced.
async fn answer_traced<S: Store>(
    context: &GrpcListenerContext<S>,
    request: Request<Incoming>,
) -> GrpcResponse {
    let mut span = context.app.begin_span(SPAN, request.headers());
    let outcome = within(&mut span, pin!(answer_in_time(context, request))).await;
    if let Some(span) = &mut span {
        let refusal = outcome.as_ref().err();
        span.text("rpc.system", "grpc");
        span.number("rpc.grpc.status_code", refusal.map_or(0, |refusal| refusal.status().into()));
        if let Some(refusal) = refusal {
            span.text("tidegate.refused", refusal.reason().name());
            span.mark_failed();
        }
    }
    context.app.end_span(span);
    outcome.unwrap_or_else(|refusal| refuse(context, refusal))
}

/// Counts a refusal and logs it, at a limited rate: Envoy does not pass the reason on to its client.
#[cold]
fn refuse<S: Store>(context: &GrpcListenerContext<S>, refusal: GrpcRefusal) -> GrpcResponse {
    let reason = refusal.reason();
    context.app.count_refusal(ListenerKind::Grpc, reason);
    let message = format!("Envoy's request was refused: {}", refusal.message());
    context.log.emit(LogLevel::Warn, "grpc_refused", &message, &[("reason", reason.name())]);
    refusal.into()
}

/// Answers within the client's `grpc-timeout`, and within the listener's own timeout.
async fn answer_in_time<S: Store>(
    context: &GrpcListenerContext<S>,
    request: Request<Incoming>,
) -> Result<GrpcResponse, GrpcRefusal> {
    let given = grpc_timeout(request.headers()).unwrap_or(Duration::MAX);
    let most = given.min(context.config.body_timeout);
    let mut body = request.into_body();
    // Boxed, because hyper moves the future of a call several times.
    let answering = Box::pin(async {
        let (request, _permit) = message::read(&mut body, &context.bounds).await?;
        should_rate_limit::answer(&context.app, context.options, &request).await
    });
    let response = timeout(most, answering).await.unwrap_or_else(|_| {
        let message = format!("no decision within {most:?}");
        Err(GrpcRefusal::over_limit(RefusalReason::Timeout, message))
    })?;
    Ok(message::respond(&response))
}

/// At most eight digits and a unit, as gRPC specifies. Anything else is ignored.
fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The span's name, as OpenTelemetry names calls.
const SPAN: &str = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_read_and_nonsense_is_none() {
        for (text, expected) in [
            ("20m", Some(Duration::from_millis(20))),
            ("1S", Some(Duration::from_secs(1))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3_600))),
            ("5n", Some(Duration::from_nanos(5))),
            ("100000000S", None),
            ("-1S", None),
            ("+1S", None),
            ("1", None),
            ("S", None),
            ("", None),
            ("1é", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", http::HeaderValue::from_bytes(text.as_bytes()).unwrap());
            assert_eq!(grpc_timeout(&headers), expected, "{text:?}");
        }
    }
}
