//! HTTP/2 to a service: many requests on one connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::UpstreamFailure;
use super::stream::UpstreamStream;
use super::upload::{UploadBody, UploadFailure};
use crate::forward::TrailerFilter;
use crate::transfer_activity::TransferActivity;

/// Where requests of one connection are handed in.
pub(crate) type Http2Sender = http2::SendRequest<Http2RequestBody>;

/// The body of a request, if it has one.
#[derive(Debug)]
pub(crate) struct Http2RequestBody {
    pub(crate) body: Option<UploadBody>,
    /// When something of it has last come.
    movement: Arc<TransferActivity>,
    /// Which fields may come behind it.
    trailers: TrailerFilter,
}

impl Http2RequestBody {
    pub(crate) fn new(body: Option<UploadBody>, trailers: TrailerFilter) -> Self {
        Self { body, movement: Arc::new(TransferActivity::new()), trailers }
    }
}

impl Default for Http2RequestBody {
    fn default() -> Self {
        Self::new(None, TrailerFilter::default())
    }
}

impl Body for Http2RequestBody {
    type Data = Bytes;
    type Error = UpstreamFailure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamFailure>>> {
        let Self { body, movement, trailers } = &mut *self;
        let Some(body) = body else { return Poll::Ready(None) };
        if movement.is_answered() {
            body.stop_timer();
        }
        let frame = ready!(body.poll_frame(cx));
        movement.record();
        Poll::Ready(frame.map(|frame| {
            let frame = frame.map(|frame| trailers.filter(frame));
            frame.map_err(|stopped| match stopped {
                UploadFailure::Broken => UpstreamFailure::Client,
                UploadFailure::Slow => {
                    movement.set_too_slow();
                    UpstreamFailure::Slow
                }
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(UploadBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), UploadBody::size_hint)
    }
}

/// Begins to speak HTTP/2 on a connection.
pub(crate) async fn handshake(
    wire: UpstreamStream,
    idle: Duration,
) -> Result<Http2Sender, UpstreamFailure> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEADERS)
        // A service that is gone without a word is noticed.
        .keep_alive_interval(idle)
        .keep_alive_timeout(idle)
        .handshake(TokioIo::new(wire))
        .await
        .map_err(|error| UpstreamFailure::Connect(format!("HTTP/2: {error}")))?;
    // It ends with the connection, or when nobody holds a sender any more.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Why a request was not answered, and the request, if it has not been sent.
pub(crate) struct Http2SendFailure {
    pub(crate) failure: UpstreamFailure,
    pub(crate) request: Option<http::Request<Http2RequestBody>>,
}

/// Sends a request and waits for the head of its response: for so long since the last of the request
/// has come. Before that there is nothing to answer.
pub(crate) async fn send(
    mut sender: Http2Sender,
    request: http::Request<Http2RequestBody>,
    response: Duration,
) -> Result<http::Response<Incoming>, Http2SendFailure> {
    let movement = Arc::clone(&request.body().movement);
    match movement.within(response, sender.try_send_request(request)).await {
        Some(Ok(response)) => {
            movement.set_answered();
            Ok(response)
        }
        Some(Err(mut error)) => {
            let request = error.take_message();
            let failure = match error.into_error() {
                _ if movement.was_too_slow() => UpstreamFailure::Slow,
                error if error.is_user() => UpstreamFailure::Client,
                _ => UpstreamFailure::Closed,
            };
            Err(Http2SendFailure { failure, request })
        }
        None => Err(Http2SendFailure { failure: UpstreamFailure::Timeout, request: None }),
    }
}

/// What waits here of one answer whose client does not take it.
const WINDOW: u32 = 128 << 10;
/// The same of all of them: many clients share the connection, and some may be slow.
const CONNECTION_WINDOW: u32 = 16 << 20;
/// What waits here of one request's body.
const SEND_BUFFER: usize = 64 << 10;
const MAX_HEADERS: u32 = 64 << 10;
