//! HTTP/2 to a service: many requests on one connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::Failure;
use super::wire::Wire;
use crate::forward::Trailers;
use crate::movement::Movement;

/// Where requests of one connection are handed in.
pub(crate) type Sender = http2::SendRequest<RequestBody>;

/// The body of a request, if it has one.
#[derive(Debug)]
pub(crate) struct RequestBody {
    pub(crate) body: Option<Incoming>,
    /// When something of it has last come.
    movement: Arc<Movement>,
    /// Which fields may come behind it.
    trailers: Trailers,
}

impl RequestBody {
    pub(crate) fn new(body: Option<Incoming>, trailers: Trailers) -> Self {
        Self { body, movement: Arc::new(Movement::new()), trailers }
    }
}

impl Default for RequestBody {
    fn default() -> Self {
        Self::new(None, Trailers::default())
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        self.movement.moved();
        Poll::Ready(frame.map(|frame| frame.map(|frame| self.trailers.filter(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// Begins to speak HTTP/2 on a connection.
pub(crate) async fn handshake(wire: Wire, idle: Duration) -> Result<Sender, Failure> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW * 4)
        .max_header_list_size(MAX_HEADERS)
        // A service that is gone without a word is noticed.
        .keep_alive_interval(idle)
        .keep_alive_timeout(idle)
        .handshake(TokioIo::new(wire))
        .await
        .map_err(|error| Failure::Connect(format!("HTTP/2: {error}")))?;
    // It ends with the connection, or when nobody holds a sender any more.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Why a request was not answered, and the request, if it has not been sent.
pub(crate) struct Unanswered {
    pub(crate) failure: Failure,
    pub(crate) request: Option<http::Request<RequestBody>>,
}

/// Sends a request and waits for the head of its response: for so long since the last of the request
/// has come. Before that there is nothing to answer.
pub(crate) async fn send(
    mut sender: Sender,
    request: http::Request<RequestBody>,
    response: Duration,
) -> Result<http::Response<Incoming>, Unanswered> {
    let movement = Arc::clone(&request.body().movement);
    match movement.within(response, sender.try_send_request(request)).await {
        Some(Ok(response)) => Ok(response),
        Some(Err(mut error)) => {
            let request = error.take_message();
            let failure = match error.into_error() {
                error if error.is_user() => Failure::Client,
                _ => Failure::Closed,
            };
            Err(Unanswered { failure, request })
        }
        None => Err(Unanswered { failure: Failure::Timeout, request: None }),
    }
}

const WINDOW: u32 = 1 << 20;
const MAX_HEADERS: u32 = 64 << 10;
