//! From a request's path to its answer.

use std::pin::pin;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request};
use hyper::body::Incoming;
use tidegate::Store;
use tokio::time::timeout;

use super::activity::Call;
use super::body::Body;
use super::others::Others;
use super::refusal::{Code, GRPC, Refusal, brief};
use super::{Response, ask, message};
use crate::trace::within;
use crate::{App, Config};

/// Every request is answered, whatever it is.
pub(super) async fn answer<S: Store>(
    app: &App<S>,
    config: &Config,
    others: &Others,
    request: Request<Incoming>,
    call: Call,
) -> Response {
    if !is_grpc(&request) {
        return Refusal::not_grpc();
    }
    match request.uri().path() {
        SHOULD_RATE_LIMIT => traced(app, config, request).await,
        path => match others.find(path) {
            Some(service) => service(request).await.map(|body| Body::Stream { body, _call: call }),
            None => {
                Refusal::new(Code::Unimplemented, format!("no method {:?}", brief(path))).into()
            }
        },
    }
}

/// Decides within a span, if the call is traced.
async fn traced<S: Store>(app: &App<S>, config: &Config, request: Request<Incoming>) -> Response {
    let mut span = app.begin_span(SPAN, request.headers());
    let decided = within(&mut span, pin!(decide(app, config, request))).await;
    if let Some(span) = &mut span {
        let code = decided.as_ref().err().map(Refusal::code);
        span.text("rpc.system", "grpc");
        span.number("rpc.grpc.status_code", code.map_or(0, |code| code as u64));
        if matches!(code, Some(Code::DeadlineExceeded | Code::Internal)) {
            span.failed();
        }
    }
    app.end_span(span);
    decided.unwrap_or_else(Refusal::into)
}

/// Within the time that the client gives, if it does, and never forever.
async fn decide<S: Store>(
    app: &App<S>,
    config: &Config,
    request: Request<Incoming>,
) -> Result<Response, Refusal> {
    let given = grpc_timeout(request.headers()).unwrap_or(Duration::MAX);
    let most = given.min(config.body_timeout);
    let mut body = request.into_body();
    // Boxed, since hyper moves a call as a whole, and more than once.
    let deciding = Box::pin(async {
        let request = message::read(&mut body, config.max_body).await?;
        ask::answer(app, config, &request).await
    });
    let response = timeout(most, deciding).await.unwrap_or_else(|_| {
        let message = format!("no decision within {most:?}");
        Err(Refusal::new(Code::DeadlineExceeded, message))
    })?;
    let mut answer = Response::new(Body::Message(message::encode(&response)));
    answer.headers_mut().insert(CONTENT_TYPE, GRPC);
    Ok(answer)
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
