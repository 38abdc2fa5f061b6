//! The response future of a limited service.

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
        /// The store is being asked. Boxed, because it is large and only remote stores need it.
        Deciding { undecided: Box<UndecidedRequest<S, B>> },
        /// The inner service is running, and its response is passed on unchanged.
        Passing { #[pin] future: F },
        /// The inner service is running, and its response needs a follow-up.
        Calling { #[pin] future: F, follow_up: ResponseFollowUp },
        /// The response has decided whether the request counts, and the limiter is being informed.
        Reporting { report: OutcomeReport, response: Option<R>, fields: Option<RateLimitFields> },
        /// The request is denied.
        Denied { denial: Option<Box<Response<Bytes>>> },
    }
}

/// A request that waits for its decision.
struct UndecidedRequest<S, B> {
    deciding: BoxedFuture<LayerDecision>,
    /// The ready service and the request. Taken when the decision is made.
    next: Option<(S, Request<B>)>,
    config: Arc<LayerConfig>,
}

/// What remains to be done when the inner service has answered.
struct ResponseFollowUp {
    fields: Option<RateLimitFields>,
    provisional: Option<Box<ProvisionalCheck>>,
}

/// A request whose response decides whether it counts.
pub(crate) struct ProvisionalCheck {
    check: Box<LayerCheck>,
    decision: Decision,
    config: Arc<LayerConfig>,
}

impl ProvisionalCheck {
    /// Splits a decision. The last part is `None` if every request counts.
    #[inline(always)]
    pub(crate) fn split(
        decided: LayerDecision,
        config: &Arc<LayerConfig>,
    ) -> (Decision, PreparedResponse, Option<Box<Self>>) {
        let LayerDecision { decision, response, check } = decided;
        let provisional = check.map(|check| {
            let (decision, config) = (decision.clone(), Arc::clone(config));
            Box::new(Self { check, decision, config })
        });
        (decision, response, provisional)
    }
}

/// Reports an outcome to the limiter, and completes even if the client has disconnected.
struct OutcomeReport(Option<BoxedFuture<()>>);

impl Future for OutcomeReport {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(report) = &mut self.0 else { return Poll::Ready(()) };
        ready!(report.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(())
    }
}

impl Drop for OutcomeReport {
    fn drop(&mut self) {
        let Some(mut report) = self.0.take() else { return };
        // An embedded store answers immediately.
        let is_done = report.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if !is_done && let Ok(runtime) = Handle::try_current() {
            runtime.spawn(report);
        }
    }
}

/// Dropped without a response: the request has paid, and it counts. Otherwise a client that disconnects in
/// time could try forever.
impl Drop for ResponseFollowUp {
    fn drop(&mut self) {
        if let Some(provisional) = self.provisional.take() {
            let ProvisionalCheck { check, decision, config } = *provisional;
            drop(OutcomeReport(Arc::clone(&config.backend).confirm(*check, decision)));
        }
    }
}

impl ResponseFollowUp {
    /// Reports to the limiter whether the request counts, if there is anything to report.
    fn report_outcome<R>(&mut self, response: &Response<R>) -> Option<OutcomeReport> {
        let ProvisionalCheck { check, decision, config } = *self.provisional.take()?;
        let backend = Arc::clone(&config.backend);
        let head = ResponseHead::of(response);
        let report = if !config.counts(head) {
            backend.undo(*check, decision)
        } else if let Some(cost) = config.cost_of_response(head) {
            backend.correct(*check, decision, cost)
        } else {
            backend.confirm(*check, decision)?
        };
        Some(OutcomeReport(Some(report)))
    }
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    const fn new(state: ResponseState<S, B, S::Future, S::Response>) -> Self {
        Self { state }
    }

    /// Waits for the inner service only.
    pub(crate) const fn passing(future: S::Future) -> Self {
        Self::new(ResponseState::Passing { future })
    }

    pub(crate) fn calling(
        future: S::Future,
        fields: Option<RateLimitFields>,
        provisional: Option<Box<ProvisionalCheck>>,
    ) -> Self {
        Self::new(ResponseState::Calling {
            future,
            follow_up: ResponseFollowUp { fields, provisional },
        })
    }

    pub(crate) const fn denied(denial: Box<Response<Bytes>>) -> Self {
        Self::new(ResponseState::Denied { denial: Some(denial) })
    }

    pub(crate) fn deciding(
        ready: S,
        request: Request<B>,
        check: LayerCheck,
        config: Arc<LayerConfig>,
    ) -> Self {
        let deciding = decide(&config, check);
        let next = Some((ready, request));
        Self::new(ResponseState::Deciding {
            undecided: Box::new(UndecidedRequest { deciding, next, config }),
        })
    }
}

impl<S, B> UndecidedRequest<S, B> {
    /// Waits for the decision, and then calls the service or denies the request.
    fn poll<F, R>(&mut self, context: &mut Context<'_>) -> Poll<Option<ResponseState<S, B, F, R>>>
    where
        S: Service<Request<B>, Future = F>,
    {
        let decided = ready!(self.deciding.as_mut().poll(context));
        let Some((mut inner, mut request)) = self.next.take() else { return Poll::Ready(None) };
        let (decision, prepared, provisional) = ProvisionalCheck::split(decided, &self.config);
        Poll::Ready(Some(match self.config.admit(decision, prepared, &mut request) {
            Ok(fields) => ResponseState::Calling {
                future: inner.call(request),
                follow_up: ResponseFollowUp { fields, provisional },
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
                StateProjection::Deciding { undecided } => ready!(undecided.poll(context)),
                StateProjection::Passing { future } => {
                    let response = ready!(future.poll(context))?;
                    return Poll::Ready(Ok(response.map(ResponseBody::inner)));
                }
                StateProjection::Calling { future, follow_up } => {
                    let response = ready!(future.poll(context))?;
                    let report = follow_up.report_outcome(&response);
                    let fields = follow_up.fields.take();
                    match report {
                        None => return Poll::Ready(Ok(with_fields(response, fields))),
                        Some(report) => Some(ResponseState::Reporting {
                            report,
                            response: Some(response),
                            fields,
                        }),
                    }
                }
                StateProjection::Reporting { report, response, fields } => {
                    ready!(Pin::new(report).poll(context));
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
                // Polled again after completion, which only a broken executor does.
                None => return Poll::Pending,
            }
        }
    }
}

/// Decides with the store, in turn if the layer lets requests wait.
pub(crate) fn decide(config: &LayerConfig, check: LayerCheck) -> BoxedFuture<LayerDecision> {
    let (backend, waiting) = (Arc::clone(&config.backend), config.waiting.clone());
    Box::pin(async move {
        let mut decided = match waiting {
            Some(waiting) => waiting.decide(&*backend, &check, check.line()).await,
            None => backend.decide(&check).await,
        };
        decided.check = check.kept_for_response();
        decided
    })
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
