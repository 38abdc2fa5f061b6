//! The layer without tower: for frameworks that have neither layers nor `http` services.

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use tidegate_http::RateLimitFields;

use crate::backend::{ImmediateOutcome, LayerDecision};
use crate::{RateLimitLayer, RequestHead, denial, future};

/// A request that may happen, and the fields for its response.
#[derive(Debug)]
#[must_use = "the response lacks its RateLimit fields until they are added"]
pub struct AllowedRequest {
    fields: Option<RateLimitFields>,
}

impl AllowedRequest {
    /// Adds `RateLimit` and `RateLimit-Policy` to the response, beside those of other limits.
    pub fn add_fields(self, headers: &mut HeaderMap) {
        if let Some(fields) = self.fields {
            fields.append_to(headers);
        }
    }
}

impl RateLimitLayer {
    /// Decides about one request, as a service behind this layer would: with it, an adapter for a framework that
    /// has no tower services is a few lines. The decision is in the request's extensions afterwards.
    ///
    /// Such a request always counts in full: [`count_if`](Self::count_if) and
    /// [`cost_of_response`](Self::cost_of_response) need a service, which sees the response.
    ///
    /// # Errors
    ///
    /// The response to send instead: a denial, or a refusal of a request that can be read in two ways.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tidegate::tower::{PeerIp, RateLimitLayer};
    ///
    /// /// What a framework calls for each request.
    /// async fn handle(limit: &RateLimitLayer, mut request: Request<()>) -> Response<bytes::Bytes> {
    ///     match limit.check_request(&mut request).await {
    ///         Err(denial) => *denial,
    ///         Ok(allowed) => {
    ///             let mut response = Response::new("hello".into());
    ///             allowed.add_fields(response.headers_mut());
    ///             response
    ///         }
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limit = RateLimitLayer::new("1/hour")?;
    /// for status in [200, 429] {
    ///     let mut request = Request::new(());
    ///     request.extensions_mut().insert(PeerIp("203.0.113.9".parse()?));
    ///     let response = handle(&limit, request).await;
    ///     assert_eq!(response.status(), status);
    ///     assert!(response.headers().contains_key("ratelimit"));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check_request<B: Send>(
        &self,
        request: &mut Request<B>,
    ) -> Result<AllowedRequest, Box<Response<Bytes>>> {
        let config = self.config();
        config.warnings.warn_of_plan(|| config.backend.warnings(config));
        let mut decided = LayerDecision::nothing();
        let outcome = {
            let head = RequestHead::of(request);
            match config.skips(&head) {
                true => ImmediateOutcome::Pass,
                false => config.try_decide(&head, &mut decided),
            }
        };
        match outcome {
            ImmediateOutcome::Pass => {
                config.mark_unlimited(request);
                return Ok(AllowedRequest { fields: None });
            }
            ImmediateOutcome::Decided => {}
            ImmediateOutcome::Pending(check) => decided = future::decide(config, check).await,
            ImmediateOutcome::Ambiguous(fault) => {
                return Err(Box::new(denial::refusal(RequestHead::of(request), &fault)));
            }
        }
        let LayerDecision { decision, response, .. } = decided;
        let fields = config.admit(decision, response, request)?;
        Ok(AllowedRequest { fields })
    }
}
