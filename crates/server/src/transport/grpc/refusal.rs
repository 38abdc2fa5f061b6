//! Refusals: responses to gRPC calls that get no decision.
//!
//! Envoy lets a request pass if its call fails, unless `failure_mode_deny` is set. So every refusal
//! that a client of Envoy can cause is a successful call whose message says OVER_LIMIT. gRPC errors are
//! reserved for calls that only a mistake in Envoy's configuration can cause.

use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, StatusCode};
use prost_types::{Struct, Value, value};
use tidegate_http::grpc_message;
use tidegate_wire::envoy::{Code, RateLimitResponse};

use super::body::GrpcBody;
use super::{GrpcResponse, message};
use crate::RefusalReason;

/// Why a call gets no decision. A denial is a decision, not a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GrpcRefusal {
    kind: GrpcRefusalKind,
    message: String,
}

/// How a refusal is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GrpcRefusalKind {
    /// OVER_LIMIT, and the call itself succeeds.
    OverLimit(RefusalReason),
    /// The gRPC error UNIMPLEMENTED.
    Unimplemented,
}

impl GrpcRefusal {
    /// The request is denied, whatever the limits are.
    pub(super) fn over_limit(reason: RefusalReason, message: impl Into<String>) -> Self {
        Self { kind: GrpcRefusalKind::OverLimit(reason), message: message.into() }
    }

    /// A message that cannot be decoded or is not valid.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::over_limit(RefusalReason::Malformed, message)
    }

    /// A field with an invalid value.
    pub(super) fn field(field: &str, problem: &str, expected: &str) -> Self {
        Self::malformed(format!("{field} {problem}: expected {expected}"))
    }

    /// A call that does not exist, or that the client must send in another form.
    pub(super) fn unimplemented(message: impl Into<String>) -> Self {
        Self { kind: GrpcRefusalKind::Unimplemented, message: message.into() }
    }

    /// The response to a request that is not gRPC at all: an HTTP status.
    pub(super) fn not_grpc() -> GrpcResponse {
        let mut response = GrpcResponse::new(GrpcBody::Empty);
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        response
    }

    pub(super) const fn reason(&self) -> RefusalReason {
        match self.kind {
            GrpcRefusalKind::OverLimit(reason) => reason,
            GrpcRefusalKind::Unimplemented => RefusalReason::NotFound,
        }
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// The status of the call, as a number.
    pub(super) const fn status(&self) -> u16 {
        match self.kind {
            GrpcRefusalKind::OverLimit(_) => 0,
            GrpcRefusalKind::Unimplemented => UNIMPLEMENTED,
        }
    }

    /// A denial with the reason in its metadata, which Envoy's access log can show.
    fn as_denial(&self, reason: RefusalReason) -> RateLimitResponse {
        let text = |text: &str| Value { kind: Some(value::Kind::StringValue(text.to_owned())) };
        let fields = [
            ("refused".to_owned(), text(reason.name())),
            ("detail".to_owned(), text(&self.message)),
        ];
        RateLimitResponse {
            overall_code: Code::OverLimit.into(),
            dynamic_metadata: Some(Struct { fields: fields.into() }),
            ..RateLimitResponse::default()
        }
    }
}

impl From<GrpcRefusal> for GrpcResponse {
    fn from(refusal: GrpcRefusal) -> Self {
        if let GrpcRefusalKind::OverLimit(reason) = refusal.kind {
            return message::respond(&refusal.as_denial(reason));
        }
        let mut response = Self::new(GrpcBody::Empty);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, GRPC);
        headers.insert(GRPC_STATUS, UNIMPLEMENTED.into());
        headers.insert(GRPC_ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(GRPC_MESSAGE, grpc_message(&refusal.message));
        response
    }
}

pub(super) const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
pub(super) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// gRPC's status code.
const UNIMPLEMENTED: u16 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_message_says_it_is_one_header() {
        let refusal = GrpcRefusal::unimplemented("100 % of\r\nnaïve");
        let response = GrpcResponse::from(refusal);
        assert_eq!(response.headers()["grpc-status"], "12");
        assert_eq!(response.headers()["grpc-message"], "100 %25 of%0D%0Ana%C3%AFve");
        assert_eq!(response.status(), StatusCode::OK);
    }
}
