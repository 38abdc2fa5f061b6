//! Calls that get no decision: a code and what is wrong.

use std::fmt::Write as _;

use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, StatusCode};

use super::Response;
use super::body::Body;

/// Why a call is not answered. A denial is an answer, not a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    code: Code,
    message: String,
}

/// What can be wrong with a call. A store that does not answer is not: policies say what happens
/// then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
}

impl Refusal {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) const fn code(&self) -> Code {
        self.code
    }

    /// A field with an invalid value.
    pub(super) fn field(field: &str, problem: &str, expected: &str) -> Self {
        let message = format!("{field} {problem}: expected {expected}");
        Self::new(Code::InvalidArgument, message)
    }

    /// A request that is not gRPC at all: its client is told so over HTTP.
    pub(super) fn not_grpc() -> Response {
        let mut response = Response::new(Body::Empty);
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        response
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        let mut response = Self::new(Body::Empty);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, GRPC);
        headers.insert(GRPC_STATUS, (refusal.code as u16).into());
        // Encoding leaves only printable ASCII, so this does not fail.
        if let Ok(message) = HeaderValue::try_from(encoded(&refusal.message)) {
            headers.insert(GRPC_MESSAGE, message);
        }
        if refusal.code == Code::Unimplemented {
            headers.insert(GRPC_ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        response
    }
}

/// As gRPC requires it: percent signs, and anything that is not printable ASCII, in hexadecimal.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'$' | b'&'..=b'~' => encoded.push(char::from(byte)),
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

/// Enough of a client's text to recognise it by.
pub(super) fn brief(text: &str) -> String {
    match text.char_indices().nth(BRIEF) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

pub(super) const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
pub(super) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
const BRIEF: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_message_says_it_is_one_header() {
        let refusal = Refusal::new(Code::Internal, "100 % of\r\nnaïve");
        let response = Response::from(refusal);
        assert_eq!(response.headers()["grpc-status"], "13");
        assert_eq!(response.headers()["grpc-message"], "100 %25 of%0D%0Ana%C3%AFve");
        assert_eq!(response.status(), StatusCode::OK);
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(brief(&"é".repeat(65)).chars().count(), 67);
        assert_eq!(brief("short"), "short");
    }
}
