//! HTTP/2 to a service: many requests share one connection.

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

/// Sends requests on one connection.
pub(crate) type Http2Sender = http2::SendRequest<Http2RequestBody>;

/// The body of a request, if it has one.
#[derive(Debug)]
pub(crate) struct Http2RequestBody {
    pub(crate) body: Option<UploadBody>,
    /// When a part of the body was last received.
    activity: Arc<TransferActivity>,
    /// Decides which trailers are forwarded.
    trailers: TrailerFilter,
}

impl Http2RequestBody {
    pub(crate) fn new(body: Option<UploadBody>, trailers: TrailerFilter) -> Self {
        Self { body, activity: Arc::new(TransferActivity::new()), trailers }
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
        let Self { body, activity, trailers } = &mut *self;
        let Some(body) = body else { return Poll::Ready(None) };
        if activity.is_answered() {
            body.stop_timer();
        }
        let frame = ready!(body.poll_frame(cx));
        activity.record();
        Poll::Ready(frame.map(|frame| {
            let frame = frame.map(|frame| trailers.filter(frame));
            frame.map_err(|stopped| match stopped {
                UploadFailure::Broken => UpstreamFailure::Client,
                UploadFailure::Slow => {
                    activity.set_too_slow();
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

/// Starts HTTP/2 on a connection.
pub(crate) async fn handshake(
    stream: UpstreamStream,
    idle: Duration,
) -> Result<Http2Sender, UpstreamFailure> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEADERS)
        // Notices a service that has disappeared without closing.
        .keep_alive_interval(idle)
        .keep_alive_timeout(idle)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| UpstreamFailure::Connect(format!("HTTP/2: {error}")))?;
    // The task ends with the connection, or when the last sender is dropped.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// The failure of a request, and the request itself if it was not sent.
pub(crate) struct Http2SendFailure {
    pub(crate) failure: UpstreamFailure,
    pub(crate) request: Option<http::Request<Http2RequestBody>>,
}

/// Sends a request and waits for the head of its response. The timeout `response` starts after the last
/// part of the request body: before that, the service cannot be expected to respond.
pub(crate) async fn send(
    mut sender: Http2Sender,
    request: http::Request<Http2RequestBody>,
    response: Duration,
) -> Result<http::Response<Incoming>, Http2SendFailure> {
    let activity = Arc::clone(&request.body().activity);
    match activity.within(response, sender.try_send_request(request)).await {
        Some(Ok(response)) => {
            activity.set_answered();
            Ok(response)
        }
        Some(Err(mut error)) => {
            let request = error.take_message();
            let failure = match error.into_error() {
                _ if activity.was_too_slow() => UpstreamFailure::Slow,
                error if error.is_user() => UpstreamFailure::Client,
                _ => UpstreamFailure::Closed,
            };
            Err(Http2SendFailure { failure, request })
        }
        None => Err(Http2SendFailure { failure: UpstreamFailure::Timeout, request: None }),
    }
}

/// Buffered bytes of one response whose client does not read.
const WINDOW: u32 = 128 << 10;
/// Buffered bytes of all responses: many clients share the connection, and some can be slow.
const CONNECTION_WINDOW: u32 = 16 << 20;
/// Buffered bytes of one request body.
const SEND_BUFFER: usize = 64 << 10;
const MAX_HEADERS: u32 = 64 << 10;
