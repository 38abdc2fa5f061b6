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
use tidegate_http::Fields;
use tidegate_limiter::Decision;
use tokio::runtime::Handle;
use tower_service::Service;

use crate::backend::{Boxed, Decided, Question, Told};
use crate::config::Config;
use crate::{ResponseBody, ResponseHead};

pin_project! {
    /// The response of a [`RateLimit`](crate::RateLimit).
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future, S::Response>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B, F, R> {
        /// The store is being asked. In a box: it is large, and most stores have answered already.
        Deciding { asking: Box<Asking<S, B>> },
        /// The inner service is at work, and its answer is left as it is.
        Passing { #[pin] future: F },
        /// The inner service is at work, and something is left to do when it has answered.
        Calling { #[pin] future: F, ticket: Ticket },
        /// The response told whether the request counts, and the limiter is being told so.
        Settling { settling: Finishing, response: Option<R>, fields: Option<Fields> },
        /// It may not happen.
        Denied { denial: Option<Box<Response<Bytes>>> },
    }
}

/// A request that waits for the decision about it.
struct Asking<S, B> {
    deciding: Boxed<Decided>,
    /// The service, which was ready, and the request. Taken when the decision is there.
    next: Option<(S, Request<B>)>,
    config: Arc<Config>,
}

/// What is left to do when the inner service has answered.
struct Ticket {
    fields: Option<Fields>,
    open: Option<Box<Open>>,
}

/// A request of which only the response tells whether it counts.
pub(crate) struct Open {
    question: Box<Question>,
    decision: Decision,
    config: Arc<Config>,
}

impl Open {
    /// `None` where every request counts.
    #[inline(always)]
    pub(crate) fn split(
        decided: Decided,
        config: &Arc<Config>,
    ) -> (Decision, Told, Option<Box<Self>>) {
        let Decided { decision, told, question } = decided;
        let open = question.map(|question| {
            let (decision, config) = (decision.clone(), Arc::clone(config));
            Box::new(Self { question, decision, config })
        });
        (decision, told, open)
    }
}

/// What the limiter is told, to its end: also if the client has gone, and nobody waits for it any more.
struct Finishing(Option<Boxed<()>>);

impl Future for Finishing {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(telling) = &mut self.0 else { return Poll::Ready(()) };
        ready!(telling.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(())
    }
}

impl Drop for Finishing {
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
impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            let Open { question, decision, config } = *open;
            drop(Finishing(Arc::clone(&config.backend).confirm(*question, decision)));
        }
    }
}

impl Ticket {
    /// Tells the limiter whether the request counts, if there is something to do about it.
    fn settle<R>(&mut self, response: &Response<R>) -> Option<Finishing> {
        let Open { question, decision, config } = *self.open.take()?;
        let backend = Arc::clone(&config.backend);
        let telling = if config.counts(ResponseHead::of(response)) {
            backend.confirm(*question, decision)?
        } else {
            backend.undo(*question, decision)
        };
        Some(Finishing(Some(telling)))
    }
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    const fn new(state: State<S, B, S::Future, S::Response>) -> Self {
        Self { state }
    }

    /// Nothing is left to do but to wait for the inner service.
    pub(crate) const fn passing(future: S::Future) -> Self {
        Self::new(State::Passing { future })
    }

    pub(crate) fn calling(
        future: S::Future,
        fields: Option<Fields>,
        open: Option<Box<Open>>,
    ) -> Self {
        Self::new(State::Calling { future, ticket: Ticket { fields, open } })
    }

    pub(crate) const fn denied(denial: Box<Response<Bytes>>) -> Self {
        Self::new(State::Denied { denial: Some(denial) })
    }

    pub(crate) fn deciding(
        ready: S,
        request: Request<B>,
        question: Question,
        config: Arc<Config>,
    ) -> Self {
        let deciding = Arc::clone(&config.backend).decide(question);
        let next = Some((ready, request));
        Self::new(State::Deciding { asking: Box::new(Asking { deciding, next, config }) })
    }
}

impl<S, B> Asking<S, B> {
    /// Calls the service, or has the denial.
    fn poll<F, R>(&mut self, context: &mut Context<'_>) -> Poll<Option<State<S, B, F, R>>>
    where
        S: Service<Request<B>, Future = F>,
    {
        let decided = ready!(self.deciding.as_mut().poll(context));
        let Some((mut inner, mut request)) = self.next.take() else { return Poll::Ready(None) };
        let (decision, told, open) = Open::split(decided, &self.config);
        Poll::Ready(Some(match self.config.admit(decision, told, &mut request) {
            Ok(fields) => {
                State::Calling { future: inner.call(request), ticket: Ticket { fields, open } }
            }
            Err(denial) => State::Denied { denial: Some(denial) },
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
                    let settling = ticket.settle(&response);
                    let fields = ticket.fields.take();
                    match settling {
                        None => return Poll::Ready(Ok(described(response, fields))),
                        Some(settling) => {
                            Some(State::Settling { settling, response: Some(response), fields })
                        }
                    }
                }
                StateProjection::Settling { settling, response, fields } => {
                    ready!(Pin::new(settling).poll(context));
                    match response.take() {
                        Some(response) => {
                            return Poll::Ready(Ok(described(response, fields.take())));
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

fn described<R>(response: Response<R>, fields: Option<Fields>) -> Response<ResponseBody<R>> {
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
