//! An axum extractor for the decision about a request.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use http::StatusCode;
use http::request::Parts;
use tidegate_limiter::Decision;

/// The decision about a request, as an extractor for axum's handlers. It is also in the request's
/// extensions, as a plain [`Decision`].
///
/// ```
/// use tidegate::tower::RateLimitDecision;
///
/// async fn hello(RateLimitDecision(decision): RateLimitDecision) -> String {
///     format!("{:?} more", decision.remaining())
/// }
/// ```
///
/// For a request that the layer does not limit, the decision's source is
/// [`DecisionSource::None`](tidegate_limiter::DecisionSource::None). A handler that is not behind a layer
/// answers 500; `Option<RateLimitDecision>` is `None` there.
#[derive(Clone, Debug)]
pub struct RateLimitDecision(pub Decision);

impl<S: Send + Sync> FromRequestParts<S> for RateLimitDecision {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        found(parts)
            .ok_or((StatusCode::INTERNAL_SERVER_ERROR, "no rate limit layer has seen this request"))
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for RateLimitDecision {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(found(parts))
    }
}

fn found(parts: &Parts) -> Option<RateLimitDecision> {
    parts.extensions.get().cloned().map(RateLimitDecision)
}
