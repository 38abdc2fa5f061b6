//! A denial as a response of axum.

use std::fmt::Write as _;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::Denied;

/// 429 with `Retry-After`, a `RateLimit` field and a problem document, as the layer answers. Requires the feature
/// `axum`.
///
/// ```
/// use axum::response::IntoResponse;
/// use axum::{Router, routing::get};
/// use tidegate::{Denied, rate_limit};
///
/// #[rate_limit(name = "reports", quota = "1/hour")]
/// async fn report() -> Result<&'static str, Denied> {
///     Ok("all is well")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let app: Router = Router::new().route("/report", get(report));
/// # drop(app);
/// assert!(report().await.is_ok());
/// let response = report().await.into_response();
/// assert_eq!(response.status(), 429);
/// assert!(response.headers().contains_key("retry-after"));
/// # }
/// ```
impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let mut response = (StatusCode::TOO_MANY_REQUESTS, problem(&self)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(wait) = self.retry_after() {
            // Whole seconds, rounded up and at least one: zero would mean an immediate retry.
            let secs = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(RETRY_AFTER, secs.max(1).into());
        }
        if let Some(value) = state(&self).and_then(|text| HeaderValue::try_from(text).ok()) {
            headers.insert(HeaderName::from_static("ratelimit"), value);
        }
        response
    }
}

/// `RateLimit`: what is left, and for how long. `None` for a name that the field cannot hold as it is.
fn state(denied: &Denied) -> Option<String> {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
    let name = Some(denied.name()).filter(|name| name.bytes().all(is_plain))?;
    let decision = denied.decision()?;
    let (remaining, wait) = (decision.remaining()?, decision.retry_span()?);
    Some(format!("\"{name}\";r={remaining};t={}", wait.as_secs_ceil().max(1)))
}

/// The problem document, by RFC 9457.
fn problem(denied: &Denied) -> String {
    let mut text = String::from(
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,"detail":"#,
    );
    quote(&denied.to_string(), &mut text);
    text.push_str(r#","violated-policies":["#);
    quote(denied.name(), &mut text);
    text.push_str("]}");
    text
}

/// A text as JSON.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            char if char < ' ' => drop(write!(out, "\\u{:04x}", u32::from(char))),
            char => out.push(char),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Decision, Limiter, WaitError};

    fn response(denied: Denied) -> (Response, serde_json::Value) {
        let body = problem(&denied);
        (denied.into_response(), serde_json::from_str(&body).unwrap())
    }

    #[test]
    fn a_denial_says_when_to_come_back() {
        let limiter = Limiter::builder().limit("1/minute burst 1").build().unwrap();
        let _ = limiter.check_now("alice");
        let decision = limiter.check_now("alice");
        let denied = Denied::unless_allowed("mails", decision).unwrap_err();
        let (response, body) = response(denied);
        assert_eq!(response.status(), 429);
        let field = |name: &str| response.headers()[name].to_str().unwrap();
        assert_eq!(field("content-type"), "application/problem+json");
        assert_eq!(field("ratelimit"), format!(r#""mails";r=0;t={}"#, field("retry-after")));
        assert_eq!(body["violated-policies"][0], "mails");
        assert!(body["detail"].as_str().unwrap().starts_with("\"mails\" denied this call"));
    }

    #[test]
    fn a_name_can_be_any_text() {
        let name = "a\"b\\c\u{1}é";
        let denied = Denied::unless_allowed(name, Decision::deny(Duration::ZERO)).unwrap_err();
        let (response, body) = response(denied);
        assert_eq!(response.headers()["retry-after"], "1");
        assert!(!response.headers().contains_key("ratelimit"));
        assert_eq!(body["violated-policies"][0], name);
        let (response, _) = self::response(Denied::not_ready("a", WaitError::QueueFull(3)));
        assert!(!response.headers().contains_key("retry-after"));
    }
}
