//! The service: decides about each request before it calls the inner service.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::backend::{ImmediateOutcome, LayerCheck, LayerDecision};
use crate::config::LayerConfig;
use crate::future::{ProvisionalCheck, ResponseFuture};
use crate::{RequestHead, ResponseBody, denial};

/// A service whose requests are limited. Made by a [`RateLimitLayer`](crate::RateLimitLayer).
///
/// Clones share their counters. It is ready whenever the inner service is.
///
/// With counters in this process, the decision is made in `call`, without waiting and without an allocation
/// for the decision itself. With counters in Redis, the returned future asks first.
#[derive(Clone, Debug)]
pub struct RateLimit<S> {
    inner: S,
    config: Arc<LayerConfig>,
}

impl<S> RateLimit<S> {
    pub(crate) const fn new(inner: S, config: Arc<LayerConfig>) -> Self {
        Self { inner, config }
    }

    /// The inner service.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service, to change it.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The inner service, without its limits.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: Body<Data = Bytes>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<S, B> {
        let config = &self.config;
        let head = RequestHead::of(&request);
        if config.skips(&head) {
            return self.pass(request);
        }
        let mut decided = LayerDecision::nothing();
        match config.try_decide(&head, &mut decided) {
            ImmediateOutcome::Pass => self.pass(request),
            ImmediateOutcome::Decided => self.answer(decided, request),
            ImmediateOutcome::Pending(check) => self.defer(check, request),
            // Nothing was decided, so there is nothing to observe.
            ImmediateOutcome::Ambiguous(fault) => {
                ResponseFuture::denied(Box::new(denial::refusal(head, &fault)))
            }
        }
    }
}

impl<S> RateLimit<S> {
    /// Calls the inner service for a request that is not limited.
    fn pass<B>(&mut self, mut request: Request<B>) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        self.config.mark_unlimited(&mut request);
        ResponseFuture::passing(self.inner.call(request))
    }

    /// Applies a decision that is already made.
    #[inline(always)]
    fn answer<B>(&mut self, decided: LayerDecision, mut request: Request<B>) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        let (decision, prepared, provisional) = ProvisionalCheck::split(decided, &self.config);
        match self.config.admit(decision, prepared, &mut request) {
            Ok(fields) => {
                let future = self.inner.call(request);
                ResponseFuture::calling(future, fields, provisional)
            }
            Err(denial) => ResponseFuture::denied(denial),
        }
    }

    /// Waits for a decision that needs the store.
    fn defer<B>(&mut self, check: LayerCheck, request: Request<B>) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
    {
        // The polled service is the ready one; its clone may not be.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        ResponseFuture::deciding(ready, request, check, Arc::clone(&self.config))
    }
}
