//! Responses to gRPC clients: trailers only. A denial is RESOURCE_EXHAUSTED with a `RetryInfo`.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response};
use tidegate_http::{RequestFault, grpc_message};
use tidegate_limiter::Decision;

/// The denial of a call. `kind` is the call's content type, which its response repeats.
pub(crate) fn denial(decision: &Decision, kind: Option<&HeaderValue>) -> Response<Bytes> {
    let wait = decision.retry_after().map(Duration::from);
    let message = match decision.retry_after() {
        Some(wait) => format!("{}: try again in {}", decision.reason(), wait.roughly()),
        None => decision.reason().to_string(),
    };
    let mut response = trailers(RESOURCE_EXHAUSTED, &message, kind);
    let details = base64(&status(&message, wait));
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

/// `google.rpc.Status { code: 1, message: 2, details: 3 }`, with one detail if there is a wait.
fn status(message: &str, wait: Option<Duration>) -> Vec<u8> {
    let mut status = Vec::new();
    number(&mut status, 1, u64::from(RESOURCE_EXHAUSTED));
    bytes(&mut status, 2, message.as_bytes());
    if let Some(wait) = wait {
        bytes(&mut status, 3, &retry_info(wait));
    }
    status
}

/// `google.protobuf.Any { type_url: 1, value: 2 }` of `google.rpc.RetryInfo { retry_delay: 1 }`, which
/// is a `google.protobuf.Duration { seconds: 1, nanos: 2 }`.
fn retry_info(wait: Duration) -> Vec<u8> {
    let (mut delay, mut info, mut any) = (Vec::new(), Vec::new(), Vec::new());
    number(&mut delay, 1, wait.as_secs());
    number(&mut delay, 2, u64::from(wait.subsec_nanos()));
    bytes(&mut info, 1, &delay);
    bytes(&mut any, 1, b"type.googleapis.com/google.rpc.RetryInfo");
    bytes(&mut any, 2, &info);
    any
}

/// A protobuf field with a number. Zero is the default and is omitted.
fn number(message: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        message.push(field << 3);
        varint(message, value);
    }
}

/// A protobuf field with text, bytes or another message.
fn bytes(message: &mut Vec<u8>, field: u8, value: &[u8]) {
    message.push(field << 3 | 2);
    varint(message, value.len() as u64);
    message.extend_from_slice(value);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
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

    #[test]
    fn the_status_is_protobuf() {
        let status = status("no", Some(Duration::from_millis(300_500)));
        let url = b"type.googleapis.com/google.rpc.RetryInfo";
        // 300 is 0xac 0x02 in seven bits a byte, 500,000,000 is 0x80 0xca 0xb5 0xee 0x01.
        let delay = [8, 0xac, 2, 16, 0x80, 0xca, 0xb5, 0xee, 1];
        let any = [&[10, 40][..], url, &[18, 11, 10, 9], &delay].concat();
        assert_eq!(status, [&[8, 8, 18, 2][..], b"no", &[26, any.len() as u8], &any].concat());
    }
}
