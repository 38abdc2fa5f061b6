//! Serves one HTTP connection, from its first byte to its last.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Request, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http2::Connection as Http2Connection;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout};

use super::HttpResponse;
use super::hyper_driver::{HttpConnectionEnd, drive, http1, http2};
use super::timer::{CLOSING_GRACE, HttpConnectionTimer, HttpProgress};
use super::wire::HttpWire;
use crate::idle::{IdleEnd, close_idle, close_idle_http2, wait_idle};
use crate::seats::{GRACE, QUIET, Seat};
use crate::{ClientStream, ListenerConfig, RefusalReason, StreamPeer};

/// Answers the requests on connections.
pub(crate) trait HttpResponder: Send + Sync + 'static {
    /// Answers any request, also an invalid one.
    fn answer(
        &self,
        peer: &StreamPeer,
        request: Request<Incoming>,
    ) -> impl Future<Output = HttpResponse> + Send;

    /// Counts a request that hyper could not read and has refused.
    fn count_unreadable(&self, _: RefusalReason) {}

    /// Answers requests without hyper, as far as that is possible.
    fn answer_without_hyper(
        &self,
        _: &mut HttpConnection,
    ) -> impl Future<Output = FastPathOutcome> + Send {
        std::future::ready(FastPathOutcome::Hyper)
    }
}

/// What the requests on a connection share.
struct HttpSession<A> {
    responder: Arc<A>,
    peer: StreamPeer,
    progress: HttpProgress,
}

/// A connection on which something is in progress.
pub(crate) struct HttpConnection {
    pub(super) stream: ClientStream,
    /// Bytes that were read from the stream and are not answered yet.
    pub(super) unread: Vec<u8>,
    /// Whether an HTTP/1 request was answered: then no other version can follow.
    pub(super) is_http1: bool,
    pub(super) progress: HttpProgress,
    pub(super) timer: HttpConnectionTimer,
}

/// How a connection continues after the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastPathOutcome {
    /// With hyper.
    Hyper,
    /// At rest: everything is answered, and the client is idle.
    Rest,
    /// Not at all: the client takes too long, or has left.
    Closed,
}

/// Answers requests until the client leaves, takes too long, or the server closes.
///
/// Buffers, timers and hyper exist only while something is in progress, not while the client is idle.
pub(crate) async fn serve<A: HttpResponder>(
    mut stream: ClientStream,
    responder: Arc<A>,
    config: Arc<ListenerConfig>,
    mut seat: Seat,
) {
    let begun = Instant::now();
    let (mut from, mut until) = (begun + GRACE, begun + config.header_timeout);
    let mut is_http1 = false;
    loop {
        let Some(unread) = wait_for_bytes(&mut stream, &mut seat, from, until).await else {
            return close_idle(stream).await;
        };
        // The first head shares the timeout of the new connection.
        let due = if is_http1 { Instant::now() + config.header_timeout } else { until };
        let progress = HttpProgress::new(seat.work());
        let timer = HttpConnectionTimer::new(progress.clone(), &config, seat, due);
        let connection = HttpConnection { stream, unread, is_http1, progress, timer };
        match Box::pin(connection.serve(Arc::clone(&responder), &config)).await {
            Some(idle) => (stream, seat, from) = idle,
            None => return,
        }
        is_http1 = true;
        until = from + config.idle_timeout.saturating_sub(QUIET);
    }
}

/// Waits for the next bytes; `None` if the connection ends without any.
async fn wait_for_bytes(
    stream: &mut ClientStream,
    seat: &mut Seat,
    from: Instant,
    mut until: Instant,
) -> Option<Vec<u8>> {
    loop {
        match wait_idle(stream, seat, from, until).await {
            IdleEnd::Received(bytes) => return Some(bytes),
            // A request can already be on its way.
            IdleEnd::ServerClosing => until = Instant::now() + CLOSING_GRACE,
            IdleEnd::Closed => return None,
        }
    }
}

impl HttpConnection {
    /// Answers requests until the client is idle. Then returns the stream, the seat, and the time since
    /// which the connection has been at rest.
    async fn serve<A: HttpResponder>(
        mut self,
        responder: Arc<A>,
        config: &ListenerConfig,
    ) -> Option<(ClientStream, Seat, Instant)> {
        match responder.answer_without_hyper(&mut self).await {
            FastPathOutcome::Hyper => self.serve_with_hyper(responder, config).await,
            FastPathOutcome::Rest => Some((self.stream, self.timer.seat, self.timer.rests_from)),
            FastPathOutcome::Closed => None,
        }
    }

    async fn serve_with_hyper<A: HttpResponder>(
        self,
        responder: Arc<A>,
        config: &ListenerConfig,
    ) -> Option<(ClientStream, Seat, Instant)> {
        let Self { stream, unread, is_http1, progress, mut timer } = self;
        let peer = stream.peer().clone();
        let wire = HttpWire::new(stream, unread, progress.clone());
        let io = TokioIo::new(wire.other_end());
        let counter = Arc::clone(&responder);
        let count_unreadable = move |error: &hyper::Error| {
            let _ = unreadable(error).map(|reason| counter.count_unreadable(reason));
        };
        let session = Arc::new(HttpSession { responder, peer, progress: progress.clone() });
        let service = service_fn(move |request| {
            // Here rather than in the future: with HTTP/2 that is first polled later, in another task.
            let (session, answering) = (Arc::clone(&session), session.progress.begin_answer());
            async move {
                let response = session.answer(request).await.map(Full::new);
                drop(answering);
                Ok::<_, Infallible>(response)
            }
        });
        let version = match is_http1 {
            true => Some(Version::HTTP_11),
            false => version(&wire, &mut timer).await,
        };
        let end = match version {
            None => HttpConnectionEnd::Broken,
            Some(Version::HTTP_2) => {
                let connection = pin!(http2(config).serve_connection(io, service));
                let announce_close = Http2Connection::graceful_shutdown;
                drive(connection, &wire, &mut timer, Some(announce_close), &count_unreadable).await
            }
            // HTTP/1 has no close frame: the last response announces the close with `connection: close`.
            Some(_) => {
                let connection = pin!(http1(config).serve_connection(io, service));
                drive(connection, &wire, &mut timer, None, &count_unreadable).await
            }
        };
        finish(end, wire, timer, &progress).await
    }
}

/// Ends hyper's part of a connection. Returns a connection that is at rest.
async fn finish(
    end: HttpConnectionEnd,
    wire: HttpWire<ClientStream>,
    timer: HttpConnectionTimer,
    progress: &HttpProgress,
) -> Option<(ClientStream, Seat, Instant)> {
    match end {
        HttpConnectionEnd::Broken => {}
        HttpConnectionEnd::Orderly => {
            let _ = timeout(LINGER, wire.linger()).await;
        }
        HttpConnectionEnd::Rest => {
            let (stream, _) = wire.into_stream()?;
            return Some((stream, timer.seat, timer.rests_from));
        }
        HttpConnectionEnd::YieldSeat => match wire.into_stream()? {
            (stream, true) => close_idle_http2(stream, progress.last_stream()).await,
            // The client does not read its responses: a close frame would not arrive either.
            (stream, false) => drop(stream),
        },
    }
    None
}

/// Why hyper refused a request that it could not read.
fn unreadable(error: &hyper::Error) -> Option<RefusalReason> {
    if error.is_parse_too_large() {
        Some(RefusalReason::TooLarge)
    } else {
        error.is_parse().then_some(RefusalReason::Malformed)
    }
}

impl<A: HttpResponder> HttpSession<A> {
    async fn answer(&self, request: Request<Incoming>) -> HttpResponse {
        let version = request.version();
        let mut response = self.responder.answer(&self.peer, request).await;
        if self.progress.is_closing() && version != Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// The version of HTTP that the client uses, if that is clear in time.
async fn version(
    wire: &HttpWire<ClientStream>,
    timer: &mut HttpConnectionTimer,
) -> Option<Version> {
    poll_fn(|cx| {
        timer.should_close(cx);
        match wire.poll_version(cx) {
            Poll::Ready(version) => Poll::Ready(version),
            Poll::Pending => timer.poll_action(cx).map(|_| None),
        }
    })
    .await
}

/// How long a client can take to close its side after the last response.
const LINGER: Duration = Duration::from_secs(1);
