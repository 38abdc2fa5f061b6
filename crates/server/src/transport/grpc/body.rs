//! The response body of a gRPC call.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};

use crate::net::connection::ActiveRequest;

/// The body of a response, in one of its states.
pub(super) enum GrpcBody {
    /// Nothing is left to send. A refusal begins here: it is entirely in its head.
    Empty,
    /// One message, then the trailers.
    Message(Bytes),
    /// The trailers with the status, which is success: a failed call has no message.
    Trailers,
    /// A body from tonic. Its guard keeps the connection in use until the stream ends.
    Stream { body: tonic::body::Body, _active: ActiveRequest },
}

impl http_body::Body for GrpcBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let frame = match &mut *self {
            Self::Empty => return Poll::Ready(None),
            Self::Stream { body, .. } => return Pin::new(body).poll_frame(cx),
            Self::Message(message) => {
                let frame = Frame::data(std::mem::take(message));
                *self = Self::Trailers;
                frame
            }
            Self::Trailers => {
                *self = Self::Empty;
                Frame::trailers(success_trailers())
            }
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Message(_) | Self::Trailers => false,
            Self::Stream { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Stream { body, .. } => body.size_hint(),
            // HTTP/2 frames carry their length; a content-length would only cost bytes.
            Self::Empty | Self::Message(_) | Self::Trailers => SizeHint::default(),
        }
    }
}

fn success_trailers() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(super::refusal::GRPC_STATUS, http::HeaderValue::from_static("0"));
    trailers
}
