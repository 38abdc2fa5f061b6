//! What a limited service answers with.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tidegate_http::RateLimitFields;
use tidegate_limiter::Decision;
use tokio::runtime::Handle;
use tower_service::Service;

use crate::backend::{BoxedFuture, LayerCheck, LayerDecision, PreparedResponse};
use crate::config::LayerConfig;
use crate::{ResponseBody, ResponseHead};

pin_project! {
    /// The response of a [`RateLimit`](crate::RateLimit).
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: ResponseState<S, B, S::Future, S::Response>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum ResponseState<S, B, F, R> {
        /// The store is being asked. In a box: it is large, and most stores have answered already.
        Deciding { asking: Box<UndecidedRequest<S, B>> },
        /// The inner service is at work, and its answer is left as it is.
        Passing { #[pin] future: F },
        /// The inner service is at work, and something is left to do when it has answered.
        Calling { #[pin] future: F, ticket: ResponseFollowUp },
        /// The response told whether the request counts, and the limiter is being told so.
        Settling { settling: OutcomeReport, response: Option<R>, fields: Option<RateLimitFields> },
        /// It may not happen.
        Denied { denial: Option<Box<Response<Bytes>>> },
    }
}

/// A request that waits for the decision about it.
struct UndecidedRequest<S, B> {
    deciding: BoxedFuture<LayerDecision>,
    /// The service, which was ready, and the request. Taken when the decision is there.
    next: Option<(S, Request<B>)>,
    config: Arc<LayerConfig>,
}

/// What is left to do when the inner service has answered.
struct ResponseFollowUp {
    fields: Option<RateLimitFields>,
    provisional: Option<Box<ProvisionalCheck>>,
}

/// A request of which only the response tells whether it counts.
pub(crate) struct ProvisionalCheck {
    check: Box<LayerCheck>,
    decision: Decision,
    config: Arc<LayerConfig>,
}

impl ProvisionalCheck {
    /// `None` where every request counts.
    #[inline(always)]
    pub(crate) fn split(
        decided: LayerDecision,
        config: &Arc<LayerConfig>,
    ) -> (Decision, PreparedResponse, Option<Box<Self>>) {
        let LayerDecision { decision, response: told, check: question } = decided;
        let open = question.map(|question| {
            let (decision, config) = (decision.clone(), Arc::clone(config));
            Box::new(Self { check: question, decision, config })
        });
        (decision, told, open)
    }
}

/// What the limiter is told, to its end: also if the client has gone, and nobody waits for it any more.
struct OutcomeReport(Option<BoxedFuture<()>>);

impl Future for OutcomeReport {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(telling) = &mut self.0 else { return Poll::Ready(()) };
        ready!(telling.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(())
    }
}

impl Drop for OutcomeReport {
    fn drop(&mut self) {
        let Some(mut telling) = self.0.take() else { return };
        // An embedded store answers at once.
        let is_done = telling.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if !is_done && let Ok(runtime) = Handle::try_current() {
            runtime.spawn(telling);
        }
    }
}

/// Nobody waits for the response any more, or there is none. The request has paid, and nothing says that
/// it does not count: it does. Otherwise whoever hangs up in time could try for ever.
impl Drop for ResponseFollowUp {
    fn drop(&mut self) {
        if let Some(open) = self.provisional.take() {
            let ProvisionalCheck { check: question, decision, config } = *open;
            drop(OutcomeReport(Arc::clone(&config.backend).confirm(*question, decision)));
        }
    }
}

impl ResponseFollowUp {
    /// Tells the limiter whether the request counts, if there is something to do about it.
    fn report_outcome<R>(&mut self, response: &Response<R>) -> Option<OutcomeReport> {
        let ProvisionalCheck { check: question, decision, config } = *self.provisional.take()?;
        let backend = Arc::clone(&config.backend);
        let telling = if config.counts(ResponseHead::of(response)) {
            backend.confirm(*question, decision)?
        } else {
            backend.undo(*question, decision)
        };
        Some(OutcomeReport(Some(telling)))
    }
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    const fn new(state: ResponseState<S, B, S::Future, S::Response>) -> Self {
        Self { state }
    }

    /// Nothing is left to do but to wait for the inner service.
    pub(crate) const fn passing(future: S::Future) -> Self {
        Self::new(ResponseState::Passing { future })
    }

    pub(crate) fn calling(
        future: S::Future,
        fields: Option<RateLimitFields>,
        open: Option<Box<ProvisionalCheck>>,
    ) -> Self {
        Self::new(ResponseState::Calling {
            future,
            ticket: ResponseFollowUp { fields, provisional: open },
        })
    }

    pub(crate) const fn denied(denial: Box<Response<Bytes>>) -> Self {
        Self::new(ResponseState::Denied { denial: Some(denial) })
    }

    pub(crate) fn deciding(
        ready: S,
        request: Request<B>,
        question: LayerCheck,
        config: Arc<LayerConfig>,
    ) -> Self {
        let deciding = Arc::clone(&config.backend).answer(question);
        let next = Some((ready, request));
        Self::new(ResponseState::Deciding {
            asking: Box::new(UndecidedRequest { deciding, next, config }),
        })
    }
}

impl<S, B> UndecidedRequest<S, B> {
    /// Calls the service, or has the denial.
    fn poll<F, R>(&mut self, context: &mut Context<'_>) -> Poll<Option<ResponseState<S, B, F, R>>>
    where
        S: Service<Request<B>, Future = F>,
    {
        let decided = ready!(self.deciding.as_mut().poll(context));
        let Some((mut inner, mut request)) = self.next.take() else { return Poll::Ready(None) };
        let (decision, told, open) = ProvisionalCheck::split(decided, &self.config);
        Poll::Ready(Some(match self.config.admit(decision, told, &mut request) {
            Ok(fields) => ResponseState::Calling {
                future: inner.call(request),
                ticket: ResponseFollowUp { fields, provisional: open },
            },
            Err(denial) => ResponseState::Denied { denial: Some(denial) },
        }))
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Deciding { asking } => ready!(asking.poll(context)),
                StateProjection::Passing { future } => {
                    let response = ready!(future.poll(context))?;
                    return Poll::Ready(Ok(response.map(ResponseBody::inner)));
                }
                StateProjection::Calling { future, ticket } => {
                    let response = ready!(future.poll(context))?;
                    let settling = ticket.report_outcome(&response);
                    let fields = ticket.fields.take();
                    match settling {
                        None => return Poll::Ready(Ok(with_fields(response, fields))),
                        Some(settling) => Some(ResponseState::Settling {
                            settling,
                            response: Some(response),
                            fields,
                        }),
                    }
                }
                StateProjection::Settling { settling, response, fields } => {
                    ready!(Pin::new(settling).poll(context));
                    match response.take() {
                        Some(response) => {
                            return Poll::Ready(Ok(with_fields(response, fields.take())));
                        }
                        None => None,
                    }
                }
                StateProjection::Denied { denial } => match denial.take() {
                    Some(denial) => return Poll::Ready(Ok((*denial).map(ResponseBody::denial))),
                    None => None,
                },
            };
            match next {
                Some(next) => state.set(next),
                // Polled again after its end, which only a broken executor does.
                None => return Poll::Pending,
            }
        }
    }
}

fn with_fields<R>(
    response: Response<R>,
    fields: Option<RateLimitFields>,
) -> Response<ResponseBody<R>> {
    let mut response = response.map(ResponseBody::inner);
    if let Some(fields) = fields {
        fields.append_to(response.headers_mut());
    }
    response
}

impl<S, B> fmt::Debug for ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
