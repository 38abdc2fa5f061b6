//! From a request's path to its answer.

use std::pin::pin;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request};
use hyper::body::Incoming;
use tidegate::Store;
use tokio::time::timeout;

use super::activity::GrpcCallGuard;
use super::body::GrpcBody;
use super::refusal::{GrpcRefusal, brief};
use super::{GrpcListenerContext, GrpcResponse, message, should_rate_limit};
use crate::log::LogLevel;
use crate::trace::within;
use crate::{ListenerKind, RefusalReason};

/// Every request is answered, whatever it is.
pub(super) async fn answer<S: Store>(
    door: &GrpcListenerContext<S>,
    request: Request<Incoming>,
    call: GrpcCallGuard,
) -> GrpcResponse {
    if !is_grpc(&request) {
        door.app.count_refusal(ListenerKind::Grpc, RefusalReason::Malformed);
        return GrpcRefusal::not_grpc();
    }
    match request.uri().path() {
        SHOULD_RATE_LIMIT => answer_traced(door, request).await,
        path => match door.tonic_services.find(path) {
            Some(service) => {
                service(request).await.map(|body| GrpcBody::Stream { body, _call: call })
            }
            None => {
                let refusal = GrpcRefusal::unimplemented(format!("no method {:?}", brief(path)));
                door.app.count_refusal(ListenerKind::Grpc, refusal.reason());
                refusal.into()
            }
        },
    }
}

/// Decides within a span, if the call is traced.
async fn answer_traced<S: Store>(
    door: &GrpcListenerContext<S>,
    request: Request<Incoming>,
) -> GrpcResponse {
    let mut span = door.app.begin_span(SPAN, request.headers());
    let decided = within(&mut span, pin!(answer_in_time(door, request))).await;
    if let Some(span) = &mut span {
        let refusal = decided.as_ref().err();
        span.text("rpc.system", "grpc");
        span.number("rpc.grpc.status_code", refusal.map_or(0, |it| it.status().into()));
        if let Some(refusal) = refusal {
            span.text("tidegate.refused", refusal.reason().name());
            span.mark_failed();
        }
    }
    door.app.end_span(span);
    decided.unwrap_or_else(|refusal| refuse(door, refusal))
}

/// Counts a refusal, and logs it now and then: Envoy's client is told nothing of it.
#[cold]
fn refuse<S: Store>(door: &GrpcListenerContext<S>, refusal: GrpcRefusal) -> GrpcResponse {
    let reason = refusal.reason();
    door.app.count_refusal(ListenerKind::Grpc, reason);
    let message = format!("Envoy's question was refused: {}", refusal.message());
    door.lines.emit(LogLevel::Warn, "grpc_refused", &message, &[("reason", reason.name())]);
    refusal.into()
}

/// Within the time that the client gives, if it does, and never forever.
async fn answer_in_time<S: Store>(
    door: &GrpcListenerContext<S>,
    request: Request<Incoming>,
) -> Result<GrpcResponse, GrpcRefusal> {
    let given = grpc_timeout(request.headers()).unwrap_or(Duration::MAX);
    let most = given.min(door.config.body_timeout);
    let mut body = request.into_body();
    // Boxed, since hyper moves a call as a whole, and more than once.
    let deciding = Box::pin(async {
        let (request, _loan) = message::read(&mut body, &door.bounds).await?;
        should_rate_limit::answer(&door.app, &door.config, &request).await
    });
    let response = timeout(most, deciding).await.unwrap_or_else(|_| {
        let message = format!("no decision within {most:?}");
        Err(GrpcRefusal::over_limit(RefusalReason::Timeout, message))
    })?;
    Ok(message::respond(&response))
}

/// `application/grpc`, also with a format or parameters, and nothing that merely begins like it.
fn is_grpc(request: &Request<Incoming>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
    request.method() == Method::POST && matches!(rest, Some([] | [b'+' | b';', ..]))
}

/// At most eight digits and a unit; anything else is not a deadline.
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

/// As OpenTelemetry names calls.
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
