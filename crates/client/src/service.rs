//! The service: runs a polite call for each request.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use crate::call::ClientCall;
use crate::state::ClientState;
use crate::{BodyReplay, PoliteError};

/// A polite client. Made by a [`PoliteLayer`](crate::PoliteLayer).
///
/// It is always ready: it waits in its calls, and waits for the inner service's readiness only when a
/// request is sent. Otherwise a call would hold the capacity that the inner service reserved through every
/// wait.
///
/// Dropping the future of a call ends it, with whatever it waits for: a turn that it had reserved is free for
/// the next call, and a retry that it has not made is returned to the budget.
///
/// # Errors
///
/// [`PoliteError`]: the inner service's error, or the reason why the request was not sent. A refusal by the
/// server is a response, not an error: the last one is passed on if the call gives up.
#[derive(Clone)]
pub struct PoliteClient<S, R> {
    inner: S,
    replay: R,
    shared: Arc<ClientState>,
}

impl<S, R> PoliteClient<S, R> {
    pub(crate) const fn new(inner: S, replay: R, shared: Arc<ClientState>) -> Self {
        Self { inner, replay, shared }
    }

    /// The inner service.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service, to change it.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The inner service, without the polite client.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, R, B, O> Service<Request<B>> for PoliteClient<S, R>
where
    S: Service<Request<B>, Response = Response<O>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    R: BodyReplay<B>,
    B: Send + 'static,
    O: Send + 'static,
{
    type Response = Response<O>;
    type Error = PoliteError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<O>, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (inner, replay) = (self.inner.clone(), self.replay.clone());
        let (head, body) = request.into_parts();
        let call = ClientCall::new(Arc::clone(&self.shared), &head);
        Box::pin(call.run(inner, replay, Request::from_parts(head, body)))
    }
}

impl<S: fmt::Debug, R> fmt::Debug for PoliteClient<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoliteClient").field("inner", &self.inner).finish_non_exhaustive()
    }
}
