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

use super::Response;
use super::watch::{Due, MOMENT, Progress, Watch};
use super::wire::Wire;
use crate::rest::{Stirred, leave, leave_http2, rest};
use crate::room::{GRACE, QUIET, Seat};
use crate::{Config, Peer, RefusalReason, Stream};

/// What answers the requests on connections.
pub(crate) trait Answers: Send + Sync + 'static {
    /// Every request is answered, whatever it is.
    fn answer(
        &self,
        peer: &Peer,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response> + Send;

    /// hyper has refused a request that nobody can read.
    fn broken(&self, _: RefusalReason) {}

    /// Answers what needs no hyper.
    fn hurry(&self, _: &mut Connection) -> impl Future<Output = Flow> + Send {
        std::future::ready(Flow::Hyper)
    }
}

/// What the requests on a connection share.
struct Session<A> {
    answers: Arc<A>,
    peer: Peer,
    progress: Progress,
}

/// A connection on which something is under way.
pub(crate) struct Connection {
    pub(super) stream: Stream,
    /// What was read from it and is still to be answered.
    pub(super) unread: Vec<u8>,
    /// Whether an HTTP/1 request was answered: no other version follows.
    pub(super) is_http1: bool,
    pub(super) progress: Progress,
    pub(super) watch: Watch,
}

/// How a connection goes on after what could be answered without hyper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// With hyper.
    Hyper,
    /// At rest: everything is answered, and the client is silent.
    Rest,
    /// Not at all: the client takes too long, or is gone.
    Over,
}

/// Answers requests until the client leaves, takes too long, or the server closes.
///
/// Buffers, timers and hyper are there while something is under way, and gone while the client is silent.
pub(crate) async fn serve<A: Answers>(
    mut stream: Stream,
    answers: Arc<A>,
    config: Arc<Config>,
    mut seat: Seat,
) {
    let begun = Instant::now();
    let (mut from, mut until) = (begun + GRACE, begun + config.header_timeout);
    let mut is_http1 = false;
    loop {
        let Some(unread) = hear(&mut stream, &mut seat, from, until).await else {
            return leave(stream).await;
        };
        // The first head has as much time as the connection had.
        let due = if is_http1 { Instant::now() + config.header_timeout } else { until };
        let progress = Progress::new(seat.work());
        let watch = Watch::new(progress.clone(), &config, seat, due);
        let connection = Connection { stream, unread, is_http1, progress, watch };
        match Box::pin(connection.serve(Arc::clone(&answers), &config)).await {
            Some(silent) => (stream, seat, from) = silent,
            None => return,
        }
        is_http1 = true;
        until = from + config.idle_timeout.saturating_sub(QUIET);
    }
}

/// What comes next; `None` if that is nothing.
async fn hear(
    stream: &mut Stream,
    seat: &mut Seat,
    from: Instant,
    mut until: Instant,
) -> Option<Vec<u8>> {
    loop {
        match rest(stream, seat, from, until).await {
            Stirred::Heard(bytes) => return Some(bytes),
            // A request may be on its way.
            Stirred::Told => until = Instant::now() + MOMENT,
            Stirred::Over => return None,
        }
    }
}

impl Connection {
    /// Answers what comes until there is a pause. Then there are the stream and the seat, and from when
    /// on they are at rest.
    async fn serve<A: Answers>(
        mut self,
        answers: Arc<A>,
        config: &Config,
    ) -> Option<(Stream, Seat, Instant)> {
        match answers.hurry(&mut self).await {
            Flow::Hyper => self.serve_with_hyper(answers, config).await,
            Flow::Rest => Some((self.stream, self.watch.seat, self.watch.rests_from)),
            Flow::Over => None,
        }
    }

    async fn serve_with_hyper<A: Answers>(
        self,
        answers: Arc<A>,
        config: &Config,
    ) -> Option<(Stream, Seat, Instant)> {
        let Self { stream, unread, is_http1, progress, mut watch } = self;
        let peer = stream.peer().clone();
        let wire = Wire::new(stream, unread, progress.clone());
        let io = TokioIo::new(wire.end());
        let refused = Arc::clone(&answers);
        let broken = move |error: &hyper::Error| {
            if error.is_parse_too_large() {
                refused.broken(RefusalReason::TooLarge);
            } else if error.is_parse() {
                refused.broken(RefusalReason::Malformed);
            }
        };
        let session = Arc::new(Session { answers, peer, progress: progress.clone() });
        let service = service_fn(move |request| {
            // Not when the answer is first polled: with HTTP/2 that is later, in a task of its own.
            let (session, answering) = (Arc::clone(&session), session.progress.answering());
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
            None => End::Broken,
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
            End::Broken => {}
            End::Orderly => {
                let _ = timeout(LINGER, wire.linger()).await;
            }
            End::Rest => {
                let (stream, _) = wire.into_stream()?;
                return Some((stream, watch.seat, watch.rests_from));
            }
            End::Leave => match wire.into_stream()? {
                (stream, true) => leave_http2(stream, progress.last_stream()).await,
                // The client does not read, and is in the middle of something.
                (stream, false) => drop(stream),
            },
        }
        None
    }
}

impl<A: Answers> Session<A> {
    async fn answer(&self, request: Request<Incoming>) -> Response {
        let version = request.version();
        let mut response = self.answers.answer(&self.peer, request).await;
        if self.progress.is_closing() && version != Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Which version of HTTP is spoken, if that is clear in time.
async fn version(wire: &Wire<Stream>, watch: &mut Watch) -> Option<Version> {
    poll_fn(|cx| {
        watch.is_told_to_close(cx);
        match wire.poll_version(cx) {
            Poll::Ready(version) => Poll::Ready(version),
            Poll::Pending => watch.poll_due(cx).map(|_| None),
        }
    })
    .await
}

/// How hyper's part of a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Everything was said.
    Orderly,
    /// The client broke off, or took too long.
    Broken,
    /// HTTP/1: everything was answered, and the client is silent.
    Rest,
    /// HTTP/2: the same, and somebody else needs its seat.
    Leave,
}

/// Drives a connection to its end. `goodbye` tells the client that it should leave.
async fn drive<C: Future<Output = hyper::Result<()>>>(
    mut connection: Pin<&mut C>,
    wire: &Wire<Stream>,
    watch: &mut Watch,
    mut goodbye: Option<fn(Pin<&mut C>)>,
    broken: &(dyn Fn(&hyper::Error) + Sync),
) -> End {
    let mut is_done = false;
    // By hand rather than with `select!`: the order matters.
    poll_fn(|cx| {
        // So that answers say so.
        watch.is_told_to_close(cx);
        loop {
            // An error is a client that broke off or broke the protocol; hyper has answered it.
            if !is_done && let Poll::Ready(outcome) = connection.as_mut().poll(cx) {
                is_done = true;
                let _ = outcome.inspect_err(broken);
            }
            match wire.poll_send(cx) {
                Poll::Ready(Err(_)) => return Poll::Ready(End::Broken),
                Poll::Ready(Ok(())) if is_done => return Poll::Ready(End::Orderly),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            let due = watch.poll_due(cx);
            // Not before: hyper would end at once, and what the client has asked is still unread.
            if !is_done
                && watch.is_closing()
                && let Some(goodbye) = goodbye.take()
            {
                goodbye(connection.as_mut());
                continue;
            }
            match ready!(due) {
                Due::Rest if !is_done && wire.is_between() => return Poll::Ready(End::Rest),
                Due::Rest => continue,
                Due::Leave if !is_done => return Poll::Ready(End::Leave),
                Due::Leave | Due::Close => {}
            }
            match goodbye.take().filter(|_| !is_done) {
                None => return Poll::Ready(End::Broken),
                Some(goodbye) => goodbye(connection.as_mut()),
            }
            watch.close();
        }
    })
    .await
}

fn http1(config: &Config) -> http1::Builder {
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

fn http2(config: &Config) -> http2::Builder<TokioExecutor> {
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
