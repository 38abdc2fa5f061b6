//! Responses to gRPC clients: trailers only. A denial is RESOURCE_EXHAUSTED with a `RetryInfo`.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response};
use tidegate_http::{RequestFault, grpc_message};
use tidegate_limiter::{Decision, grpc_status_details};

/// The denial of a call. `kind` is the call's content type, which its response repeats.
pub(crate) fn denial(decision: &Decision, kind: Option<&HeaderValue>) -> Response<Bytes> {
    let wait = decision.retry_span().map(Duration::from);
    let message = match decision.retry_span() {
        Some(wait) => format!("{}: try again in {}", decision.reason(), wait.roughly()),
        None => decision.reason().to_string(),
    };
    let mut response = trailers(RESOURCE_EXHAUSTED, &message, kind);
    let details = base64(&grpc_status_details(&message, wait));
    insert(response.headers_mut(), GRPC_STATUS_DETAILS, &details);
    response
}

/// The response to an ambiguous call.
pub(crate) fn refusal(fault: &RequestFault, kind: Option<&HeaderValue>) -> Response<Bytes> {
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

/// Inserts a field. The texts here are printable ASCII, so they are always valid.
fn insert(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
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
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

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
