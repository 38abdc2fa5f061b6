//! One HTTP connection, from its first byte to its last: for checks, for operators, for Envoy and for the
//! gateway.
//!
//! A transport over HTTP is an [`HttpTenant`]: it answers requests, and says what its connections are
//! bounded by. Everything between the socket and a request is here: the version of HTTP, idle phases,
//! timeouts, and the end of a connection.

mod bounds;
mod deadline;
mod driver;
mod io;
mod lent_stream;
mod progress;
mod sniff;

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response, Version};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, timeout};

use self::deadline::CLOSING_GRACE;
use self::driver::{HttpConnectionEnd, drive};
use self::io::WatchedStream;
use self::lent_stream::lend;
use super::idle::{IdleEnd, close_idle, close_idle_http2, wait_idle};
use crate::net::ClientStream;
use crate::net::seats::{GRACE, QUIET, Seat};

pub use self::bounds::{Http2Bounds, HttpBounds};
pub(crate) use self::deadline::{HttpConnectionTimer, HttpTimerAction};
pub use self::progress::{ActiveRequest, HttpProgress};

/// A transport over HTTP.
pub trait HttpTenant: Send + Sync + 'static {
    /// What the requests of one connection share.
    type Session: Send + Sync + 'static;
    /// The body of a response.
    type Body: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// The bounds of every connection.
    fn bounds(&self) -> &HttpBounds;

    /// Begins to answer requests on a connection.
    fn open_session(
        self: &Arc<Self>,
        stream: &ClientStream,
        progress: &HttpProgress,
    ) -> Arc<Self::Session>;

    /// Answers any request, also an invalid one. `active` keeps the connection busy until it is dropped.
    fn answer(
        session: Arc<Self::Session>,
        request: Request<Incoming>,
        active: ActiveRequest,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Answers requests without hyper, as far as that is possible.
    fn answer_without_hyper(
        &self,
        _: &mut HttpConnection,
    ) -> impl Future<Output = FastPathOutcome> + Send {
        ready(FastPathOutcome::Hyper)
    }

    /// Counts a request that hyper could not read and has refused.
    fn count_unreadable(&self, error: &hyper::Error);

    /// Uses the connection after a request has switched its protocol.
    fn run_switched(_: &Self::Session) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

/// A connection on which something is in progress.
pub struct HttpConnection {
    pub(crate) stream: ClientStream,
    /// Bytes that were read from the stream and are not answered yet.
    pub(crate) unread: Vec<u8>,
    /// Whether an HTTP/1 request was answered: then no other version can follow.
    pub(crate) is_http1: bool,
    pub(crate) progress: HttpProgress,
    pub(crate) timer: HttpConnectionTimer,
}

impl fmt::Debug for HttpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConnection").field("progress", &self.progress).finish_non_exhaustive()
    }
}

/// How a connection continues after the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastPathOutcome {
    /// With hyper.
    Hyper,
    /// At rest: everything is answered, and the client is idle.
    Rest,
    /// Not at all: the client takes too long, or has left.
    Closed,
}

/// A connection that is at rest, and since when.
type RestingConnection = (ClientStream, Seat, Instant);

/// Answers requests until the client leaves, takes too long, or the server closes.
///
/// Buffers, timers and hyper exist only while something is in progress, not while the client is idle.
pub async fn serve<T: HttpTenant>(mut stream: ClientStream, mut seat: Seat, tenant: Arc<T>) {
    let bounds = tenant.bounds();
    let begun = Instant::now();
    let (mut from, mut until) = (begun + GRACE, begun + bounds.header_timeout);
    let mut is_http1 = false;
    loop {
        let Some(unread) = wait_for_bytes(&mut stream, &mut seat, from, until).await else {
            return close_idle(stream).await;
        };
        // The first head shares the timeout of the new connection.
        let due = if is_http1 { Instant::now() + bounds.header_timeout } else { until };
        let progress = HttpProgress::new(seat.work());
        let timer = HttpConnectionTimer::new(progress.clone(), bounds, seat, due);
        let connection = HttpConnection { stream, unread, is_http1, progress, timer };
        match Box::pin(connection.serve(&tenant)).await {
            Some(resting) => (stream, seat, from) = resting,
            None => return,
        }
        is_http1 = true;
        until = from + bounds.idle_timeout.saturating_sub(QUIET);
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
    /// Answers requests until the connection ends or is at rest.
    async fn serve<T: HttpTenant>(mut self, tenant: &Arc<T>) -> Option<RestingConnection> {
        match tenant.answer_without_hyper(&mut self).await {
            FastPathOutcome::Hyper => self.serve_with_hyper(tenant).await,
            FastPathOutcome::Rest => Some((self.stream, self.timer.seat, self.timer.rests_from)),
            FastPathOutcome::Closed => None,
        }
    }

    async fn serve_with_hyper<T: HttpTenant>(
        mut self,
        tenant: &Arc<T>,
    ) -> Option<RestingConnection> {
        let bounds = tenant.bounds();
        let is_http2 = match bounds.is_http2_only {
            true => true,
            false => !self.is_http1 && self.version().await? == Version::HTTP_2,
        };
        let Self { stream, unread, progress, mut timer, .. } = self;
        if is_http2 {
            progress.set_http2();
        }
        let session = tenant.open_session(&stream, &progress);
        let (lent, lender) = lend(stream);
        let io = WatchedStream::new(lent, unread, bounds.is_proxy, progress.clone());
        let io = TokioIo::new(io);
        let (answering, begun) = (Arc::clone(&session), progress.clone());
        let service = service_fn(move |request| {
            // Here rather than in the future: with HTTP/2 that is first polled later, in another task.
            let (session, active) = (Arc::clone(&answering), begun.begin());
            async move { Ok::<_, Infallible>(T::answer(session, request, active).await) }
        });
        let end = if is_http2 {
            let connection = pin!(bounds.http2().serve_connection(io, service));
            drive(connection, &mut timer, Some(http2::Connection::graceful_shutdown)).await
        } else {
            // HTTP/1 has no close frame: the last response announces the close.
            let connection = pin!(bounds.http1().serve_connection(io, service).with_upgrades());
            drive(connection, &mut timer, None).await
        };
        match end {
            HttpConnectionEnd::Closed => None,
            HttpConnectionEnd::Rest => Some((lender.take()?, timer.seat, timer.rests_from)),
            HttpConnectionEnd::YieldSeat => {
                close_idle_http2(lender.take()?, progress.last_stream()).await;
                None
            }
            HttpConnectionEnd::Done(outcome) => {
                if let Err(error) = outcome {
                    tenant.count_unreadable(&error);
                }
                match lender.take() {
                    Some(stream) => {
                        let _ = timeout(LINGER, linger(stream)).await;
                    }
                    None => T::run_switched(&session).await,
                }
                None
            }
        }
    }

    /// The version of HTTP that the client uses, if that is clear in time.
    async fn version(&mut self) -> Option<Version> {
        let Self { stream, unread, timer, .. } = self;
        poll_fn(|cx| {
            timer.should_close(cx);
            match sniff::poll_version(stream, unread, cx) {
                Poll::Ready(version) => Poll::Ready(version),
                Poll::Pending => timer.poll_action(cx).map(|_| None),
            }
        })
        .await
    }
}

/// Reads and drops what still arrives after the last response, at most [`MAX_LINGER`] bytes. Closing a
/// socket with unread bytes would discard responses that are on their way. The bound is for clients that
/// never stop sending.
async fn linger(mut stream: ClientStream) {
    let mut received = 0_usize;
    while received < MAX_LINGER {
        let read = poll_fn(|cx| {
            // On the stack and not in the connection, which has its size as long as it is active.
            let mut chunk = [const { MaybeUninit::uninit() }; 4 << 10];
            let mut chunk = ReadBuf::uninit(&mut chunk);
            let read = Pin::new(&mut stream).poll_read(cx, &mut chunk);
            read.map(|read| read.map_or(0, |()| chunk.filled().len()))
        });
        match read.await {
            0 => break,
            length => received = received.saturating_add(length),
        }
    }
}

/// How long a client can take to close its side after the last response.
const LINGER: Duration = Duration::from_secs(1);
const MAX_LINGER: usize = 256 << 10;
