//! What gRPC adds to HTTP: its content type, the form of its messages, and denials as a gRPC status.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Response};
use tidegate_limiter::{Decision, Span, grpc_status_details};

use crate::RequestFault;

/// Whether a request is a gRPC call.
pub fn is_grpc_call(method: &Method, headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    method == Method::POST && kind.is_some_and(is_grpc_type)
}

/// Whether a content type is `application/grpc`, possibly with a format or parameters. A longer type that
/// only begins with it, such as `application/grpc-web`, is another protocol.
fn is_grpc_type(kind: &[u8]) -> bool {
    matches!(kind.strip_prefix(b"application/grpc"), Some([] | [b'+' | b';', ..]))
}

/// The value of `grpc-message`: percent signs and everything but printable ASCII in hexadecimal.
///
/// ```
/// use tidegate_http::grpc_message;
///
/// assert_eq!(grpc_message("100 % of\nnaïve"), "100 %25 of%0Ana%C3%AFve");
/// ```
pub fn grpc_message(text: &str) -> HeaderValue {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'$' | b'&'..=b'~' => encoded.push(char::from(byte)),
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    // Only printable ASCII is left, so this does not fail.
    HeaderValue::try_from(encoded).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// The denial of a gRPC call: RESOURCE_EXHAUSTED, in trailers only. `kind` is the call's content type,
/// which its response repeats.
///
/// How long to wait is there twice: as a `google.rpc.RetryInfo` for clients that read the status's
/// details, and as `grpc-retry-pushback-ms`, which gRPC's own retries obey.
pub fn grpc_denial(decision: &Decision, kind: Option<&HeaderValue>) -> Response<Bytes> {
    let wait = decision.retry_span();
    let message = match wait {
        Some(wait) => format!("{}: try again in {}", decision.reason(), wait.roughly()),
        None => decision.reason().to_string(),
    };
    let mut response = trailers(RESOURCE_EXHAUSTED, &message, kind);
    let headers = response.headers_mut();
    let details = base64(&grpc_status_details(&message, wait.map(Duration::from)));
    // Printable ASCII, so this does not fail.
    if let Ok(details) = HeaderValue::try_from(details) {
        headers.insert(GRPC_STATUS_DETAILS, details);
    }
    if let Some(wait) = wait.map(Span::as_millis_ceil) {
        headers.insert(GRPC_RETRY_PUSHBACK, wait.into());
    }
    response
}

/// The response to an ambiguous gRPC call: INVALID_ARGUMENT.
pub fn grpc_refusal(fault: &RequestFault, kind: Option<&HeaderValue>) -> Response<Bytes> {
    trailers(INVALID_ARGUMENT, &fault.to_string(), kind)
}

fn trailers(code: u16, message: &str, kind: Option<&HeaderValue>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    let plain = || HeaderValue::from_static("application/grpc");
    headers.insert(CONTENT_TYPE, kind.cloned().unwrap_or_else(plain));
    headers.insert(GRPC_STATUS, HeaderValue::from(code));
    headers.insert(GRPC_MESSAGE, grpc_message(message));
    response
}

/// Base64 without padding, as gRPC requires.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let group = three.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte));
        let group = group << (8 * (3 - three.len()));
        for digit in 0..=three.len() {
            let index = group >> (18 - 6 * digit) & 63;
            text.push(char::from(*ALPHABET.get(index as usize).unwrap_or(&b'A')));
        }
    }
    text
}

const INVALID_ARGUMENT: u16 = 3;
const RESOURCE_EXHAUSTED: u16 = 8;
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_STATUS_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const GRPC_RETRY_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_posts_of_the_very_type_are_calls() {
        for (method, kind, is_call) in [
            (Method::POST, "application/grpc", true),
            (Method::POST, "application/grpc+proto", true),
            (Method::POST, "application/grpc;charset=utf-8", true),
            (Method::POST, "application/grpc-web+proto", false),
            (Method::POST, "application/json", false),
            (Method::GET, "application/grpc", false),
        ] {
            let headers = [(CONTENT_TYPE, HeaderValue::from_static(kind))].into_iter().collect();
            assert_eq!(is_grpc_call(&method, &headers), is_call, "{method} {kind}");
        }
        assert!(!is_grpc_call(&Method::POST, &HeaderMap::new()));
    }

    #[test]
    fn base64_is_as_in_rfc_4648() {
        for (plain, coded) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
