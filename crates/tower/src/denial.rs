//! The responses to denied and to ambiguous requests.

use std::fmt;

use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use tidegate_http::{RequestFault, grpc_denial, grpc_refusal};
use tidegate_limiter::Decision;

use crate::RequestHead;

/// A request that is about to be denied.
///
/// [`on_denied`](crate::RateLimitLayer::on_denied) turns it into a response: one of your own, or the default
/// one, changed or unchanged.
///
/// ```
/// use tidegate::tower::{Denial, RateLimitLayer};
///
/// let layer = RateLimitLayer::new("5/minute")?.on_denied(|denial: Denial<'_>| {
///     let mut response = denial.into_response();
///     response.headers_mut().insert("x-reason", "rate".parse().unwrap());
///     response
/// });
/// # Ok::<(), tidegate::BuildError>(())
/// ```
pub struct Denial<'a> {
    head: RequestHead<'a>,
    decision: &'a Decision,
    response: Response<Bytes>,
}

impl<'a> Denial<'a> {
    pub(crate) const fn new(
        head: RequestHead<'a>,
        decision: &'a Decision,
        response: Response<Bytes>,
    ) -> Self {
        Self { head, decision, response }
    }

    /// The request.
    pub const fn head(&self) -> RequestHead<'a> {
        self.head
    }

    /// The decision: why, and for how long.
    pub const fn decision(&self) -> &'a Decision {
        self.decision
    }

    /// The default response: 429 with an `application/problem+json`; for a gRPC call
    /// `RESOURCE_EXHAUSTED` with a `google.rpc.RetryInfo`.
    pub fn into_response(self) -> Response<Bytes> {
        if self.head.is_grpc() {
            grpc_denial(self.decision, self.head.headers().get(CONTENT_TYPE))
        } else {
            self.response
        }
    }
}

/// The response to an ambiguous request: 400, or `INVALID_ARGUMENT` for a gRPC call.
pub(crate) fn refusal(head: RequestHead<'_>, fault: &RequestFault) -> Response<Bytes> {
    if head.is_grpc() {
        grpc_refusal(fault, head.headers().get(CONTENT_TYPE))
    } else {
        fault.refusal()
    }
}

impl fmt::Debug for Denial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denial").field("decision", self.decision).finish_non_exhaustive()
    }
}
