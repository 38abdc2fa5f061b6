//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Request, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::{Instant, timeout};

use super::HttpResponse;
use super::timer::{CLOSING_GRACE, HttpConnectionTimer, HttpProgress, HttpTimerAction};
use super::wire::HttpWire;
use crate::idle::{IdleEnd, close_idle, close_idle_http2, wait_idle};
use crate::seats::{GRACE, QUIET, Seat};
use crate::{ClientStream, ListenerConfig, RefusalReason, StreamPeer};

/// What answers the requests on connections.
pub(crate) trait HttpResponder: Send + Sync + 'static {
    /// Every request is answered, whatever it is.
    fn answer(
        &self,
        peer: &StreamPeer,
        request: Request<Incoming>,
    ) -> impl Future<Output = HttpResponse> + Send;

    /// hyper has refused a request that nobody can read.
    fn count_unreadable(&self, _: RefusalReason) {}

    /// Answers what needs no hyper.
    fn answer_without_hyper(
        &self,
        _: &mut HttpConnection,
    ) -> impl Future<Output = FastPathOutcome> + Send {
        std::future::ready(FastPathOutcome::Hyper)
    }
}

/// What the requests on a connection share.
struct HttpSession<A> {
    answers: Arc<A>,
    peer: StreamPeer,
    progress: HttpProgress,
}

/// A connection on which something is under way.
pub(crate) struct HttpConnection {
    pub(super) stream: ClientStream,
    /// What was read from it and is still to be answered.
    pub(super) unread: Vec<u8>,
    /// Whether an HTTP/1 request was answered: no other version follows.
    pub(super) is_http1: bool,
    pub(super) progress: HttpProgress,
    pub(super) timer: HttpConnectionTimer,
}

/// How a connection goes on after what could be answered without hyper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastPathOutcome {
    /// With hyper.
    Hyper,
    /// At rest: everything is answered, and the client is silent.
    Rest,
    /// Not at all: the client takes too long, or is gone.
    Closed,
}

/// Answers requests until the client leaves, takes too long, or the server closes.
///
/// Buffers, timers and hyper are there while something is under way, and gone while the client is silent.
pub(crate) async fn serve<A: HttpResponder>(
    mut stream: ClientStream,
    answers: Arc<A>,
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
        // The first head has as much time as the connection had.
        let due = if is_http1 { Instant::now() + config.header_timeout } else { until };
        let progress = HttpProgress::new(seat.work());
        let watch = HttpConnectionTimer::new(progress.clone(), &config, seat, due);
        let connection = HttpConnection { stream, unread, is_http1, progress, timer: watch };
        match Box::pin(connection.serve(Arc::clone(&answers), &config)).await {
            Some(silent) => (stream, seat, from) = silent,
            None => return,
        }
        is_http1 = true;
        until = from + config.idle_timeout.saturating_sub(QUIET);
    }
}

/// What comes next; `None` if that is nothing.
async fn wait_for_bytes(
    stream: &mut ClientStream,
    seat: &mut Seat,
    from: Instant,
    mut until: Instant,
) -> Option<Vec<u8>> {
    loop {
        match wait_idle(stream, seat, from, until).await {
            IdleEnd::Received(bytes) => return Some(bytes),
            // A request may be on its way.
            IdleEnd::ServerClosing => until = Instant::now() + CLOSING_GRACE,
            IdleEnd::Closed => return None,
        }
    }
}

impl HttpConnection {
    /// Answers what comes until there is a pause. Then there are the stream and the seat, and from when
    /// on they are at rest.
    async fn serve<A: HttpResponder>(
        mut self,
        answers: Arc<A>,
        config: &ListenerConfig,
    ) -> Option<(ClientStream, Seat, Instant)> {
        match answers.answer_without_hyper(&mut self).await {
            FastPathOutcome::Hyper => self.serve_with_hyper(answers, config).await,
            FastPathOutcome::Rest => Some((self.stream, self.timer.seat, self.timer.rests_from)),
            FastPathOutcome::Closed => None,
        }
    }

    async fn serve_with_hyper<A: HttpResponder>(
        self,
        answers: Arc<A>,
        config: &ListenerConfig,
    ) -> Option<(ClientStream, Seat, Instant)> {
        let Self { stream, unread, is_http1, progress, timer: mut watch } = self;
        let peer = stream.peer().clone();
        let wire = HttpWire::new(stream, unread, progress.clone());
        let io = TokioIo::new(wire.other_end());
        let refused = Arc::clone(&answers);
        let broken = move |error: &hyper::Error| {
            if error.is_parse_too_large() {
                refused.count_unreadable(RefusalReason::TooLarge);
            } else if error.is_parse() {
                refused.count_unreadable(RefusalReason::Malformed);
            }
        };
        let session = Arc::new(HttpSession { answers, peer, progress: progress.clone() });
        let service = service_fn(move |request| {
            // Not when the answer is first polled: with HTTP/2 that is later, in a task of its own.
            let (session, answering) = (Arc::clone(&session), session.progress.begin_answer());
            async move {
                let response = session.answer(request).await.map(Full::new);
                drop(answering);
                Ok::<_, Infallible>(response)
            }
        });
        let version = match is_http1 {
            true => Some(Version::HTTP_11),
            false => version(&wire, &mut watch).await,
        };
        let end = match version {
            None => HttpConnectionEnd::Broken,
            Some(Version::HTTP_2) => {
                let connection = pin!(http2(config).serve_connection(io, service));
                let goodbye = http2::Connection::graceful_shutdown;
                drive(connection, &wire, &mut watch, Some(goodbye), &broken).await
            }
            // Nothing has to be said at the end: the last answer says that it is the last.
            Some(_) => {
                let connection = pin!(http1(config).serve_connection(io, service));
                drive(connection, &wire, &mut watch, None, &broken).await
            }
        };
        match end {
            HttpConnectionEnd::Broken => {}
            HttpConnectionEnd::Orderly => {
                let _ = timeout(LINGER, wire.linger()).await;
            }
            HttpConnectionEnd::Rest => {
                let (stream, _) = wire.into_stream()?;
                return Some((stream, watch.seat, watch.rests_from));
            }
            HttpConnectionEnd::YieldSeat => match wire.into_stream()? {
                (stream, true) => close_idle_http2(stream, progress.last_stream()).await,
                // The client does not read, and is in the middle of something.
                (stream, false) => drop(stream),
            },
        }
        None
    }
}

impl<A: HttpResponder> HttpSession<A> {
    async fn answer(&self, request: Request<Incoming>) -> HttpResponse {
        let version = request.version();
        let mut response = self.answers.answer(&self.peer, request).await;
        if self.progress.is_closing() && version != Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Which version of HTTP is spoken, if that is clear in time.
async fn version(
    wire: &HttpWire<ClientStream>,
    watch: &mut HttpConnectionTimer,
) -> Option<Version> {
    poll_fn(|cx| {
        watch.should_close(cx);
        match wire.poll_version(cx) {
            Poll::Ready(version) => Poll::Ready(version),
            Poll::Pending => watch.poll_action(cx).map(|_| None),
        }
    })
    .await
}

/// How hyper's part of a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HttpConnectionEnd {
    /// Everything was said.
    Orderly,
    /// The client broke off, or took too long.
    Broken,
    /// HTTP/1: everything was answered, and the client is silent.
    Rest,
    /// HTTP/2: the same, and somebody else needs its seat.
    YieldSeat,
}

/// Drives a connection to its end. `goodbye` tells the client that it should leave.
async fn drive<C: Future<Output = hyper::Result<()>>>(
    mut connection: Pin<&mut C>,
    wire: &HttpWire<ClientStream>,
    watch: &mut HttpConnectionTimer,
    mut goodbye: Option<fn(Pin<&mut C>)>,
    broken: &(dyn Fn(&hyper::Error) + Sync),
) -> HttpConnectionEnd {
    let mut is_done = false;
    // By hand rather than with `select!`: the order matters.
    poll_fn(|cx| {
        // So that answers say so.
        watch.should_close(cx);
        loop {
            // An error is a client that broke off or broke the protocol; hyper has answered it.
            if !is_done && let Poll::Ready(outcome) = connection.as_mut().poll(cx) {
                is_done = true;
                let _ = outcome.inspect_err(broken);
            }
            match wire.poll_send(cx) {
                Poll::Ready(Err(_)) => return Poll::Ready(HttpConnectionEnd::Broken),
                Poll::Ready(Ok(())) if is_done => return Poll::Ready(HttpConnectionEnd::Orderly),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            let due = watch.poll_action(cx);
            // Not before: hyper would end at once, and what the client has asked is still unread.
            if !is_done
                && watch.is_closing()
                && let Some(goodbye) = goodbye.take()
            {
                goodbye(connection.as_mut());
                continue;
            }
            match ready!(due) {
                HttpTimerAction::Rest if !is_done && wire.is_between_requests() => {
                    return Poll::Ready(HttpConnectionEnd::Rest);
                }
                HttpTimerAction::Rest => continue,
                HttpTimerAction::YieldSeat if !is_done => {
                    return Poll::Ready(HttpConnectionEnd::YieldSeat);
                }
                HttpTimerAction::YieldSeat | HttpTimerAction::Close => {}
            }
            match goodbye.take().filter(|_| !is_done) {
                None => return Poll::Ready(HttpConnectionEnd::Broken),
                Some(goodbye) => goodbye(connection.as_mut()),
            }
            watch.close();
        }
    })
    .await
}

fn http1(config: &ListenerConfig) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Not `pipeline_flush`: it withholds an answer while any byte of another request is unread,
    // never sends hyper's own 400 and 431, and lifts the bound on what waits to be written.
    builder
        // A client that has finished sending still waits for the answers.
        .half_close(true)
        // See `watch`, which distinguishes a slow head from an idle connection.
        .header_read_timeout(None)
        .max_header_size(config.max_head)
        // What one connection can make us hold. hyper refuses less than 8 KiB.
        .max_buf_size(config.max_head.saturating_add(config.max_body).max(8 << 10));
    builder
}

fn http2(config: &ListenerConfig) -> http2::Builder<TokioExecutor> {
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX >> 1);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(config.max_streams)
        .max_header_list_size(size(config.max_head))
        // Requests that are cancelled as fast as they are made, or that break the protocol.
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_ERRORS)
        // One body fits at once; anything beyond that is read as it is dealt with.
        .initial_stream_window_size(size(config.max_body).max(MIN_WINDOW))
        .initial_connection_window_size(size(config.max_body).max(CONNECTION_WINDOW))
        .max_send_buf_size(SEND_BUFFER)
        // Detects clients that are gone without a word.
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(config.header_timeout);
    builder
}

const MAX_RESETS: usize = 20;
const MAX_ERRORS: usize = 100;
/// The protocol's own.
const MIN_WINDOW: u32 = 65_535;
const CONNECTION_WINDOW: u32 = 1 << 20;
const SEND_BUFFER: usize = 64 << 10;
const PING_EVERY: Duration = Duration::from_secs(20);
/// How long a client may take to notice that everything has been said.
const LINGER: Duration = Duration::from_secs(1);
