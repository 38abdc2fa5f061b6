//! The body of a response to a client: the gateway's own, or streamed from a service.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tidegate_server::StallTimer;
use tidegate_server::connection::ActiveRequest;

use crate::access_log::AccessLogRecord;
use crate::buffers::{AnswerBuffer, AnswerChunk, Http2Buffers};
use crate::upstream::{UpstreamFailure, UpstreamHttp1Body, UpstreamSlot};

/// A response body on its way to a client, with everything that lasts until its end.
#[derive(Debug)]
pub(crate) struct GatewayBody {
    source: GatewayBodySource,
    /// Logged on drop, when the body is sent or aborted.
    record: Option<Box<AccessLogRecord>>,
    /// Keeps the connection busy until the end of the body.
    _active: Option<ActiveRequest>,
    /// HTTP/2: the bytes that the client has not read.
    buffer: Option<Arc<AnswerBuffer>>,
}

#[derive(Debug)]
enum GatewayBodySource {
    Whole(Bytes),
    Streamed(Box<UpstreamHttp1Body>),
    H2(Box<UpstreamHttp2Body>),
}

/// A body that a service sends over HTTP/2.
#[derive(Debug)]
struct UpstreamHttp2Body {
    body: Incoming,
    slot: Option<UpstreamSlot>,
    stall_timer: StallTimer,
    idle: Duration,
}

impl GatewayBody {
    pub(crate) const fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    pub(crate) const fn whole(bytes: Bytes) -> Self {
        Self { source: GatewayBodySource::Whole(bytes), record: None, _active: None, buffer: None }
    }

    pub(crate) fn streamed(body: UpstreamHttp1Body) -> Self {
        Self { source: GatewayBodySource::Streamed(Box::new(body)), ..Self::empty() }
    }

    pub(crate) fn of_h2(body: Incoming, slot: UpstreamSlot, idle: Duration) -> Self {
        let (slot, stall_timer) = (Some(slot), StallTimer::default());
        let body = UpstreamHttp2Body { body, slot, stall_timer, idle };
        Self { source: GatewayBodySource::H2(Box::new(body)), ..Self::empty() }
    }

    /// Logs the request when the body has ended.
    pub(crate) fn with_record(self, record: Option<Box<AccessLogRecord>>) -> Self {
        Self { record, ..self }
    }

    /// Keeps the connection busy until the body has ended. `buffers` are those of an HTTP/2 connection.
    pub(crate) fn with_active_request(
        self,
        active: ActiveRequest,
        buffers: Option<&Arc<Http2Buffers>>,
    ) -> Self {
        let buffer = buffers.map(|buffers| AnswerBuffer::new(Arc::clone(buffers)));
        Self { _active: Some(active), buffer, ..self }
    }

    fn poll_source(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamFailure>>> {
        match &mut self.source {
            GatewayBodySource::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            GatewayBodySource::Whole(bytes) => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))))
            }
            GatewayBodySource::Streamed(body) => body.poll_frame(cx),
            GatewayBodySource::H2(body) => body.poll_frame(cx),
        }
    }
}

impl UpstreamHttp2Body {
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamFailure>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => frame.map(|frame| frame.map_err(|_| UpstreamFailure::Closed)),
            Poll::Pending => {
                ready!(self.stall_timer.poll_expired(self.idle, cx));
                Some(Err(UpstreamFailure::Timeout))
            }
        };
        self.stall_timer.restart();
        if let Some(Err(failure)) = &frame
            && let Some(slot) = self.slot.take()
        {
            slot.fail(failure);
        }
        Poll::Ready(frame)
    }
}

impl HttpBody for GatewayBody {
    type Data = AnswerChunk;
    type Error = UpstreamFailure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<AnswerChunk>, UpstreamFailure>>> {
        if let Some(buffer) = &self.buffer {
            ready!(buffer.poll_room(cx));
        }
        let frame = ready!(self.poll_source(cx));
        if let Some(record) = &mut self.record {
            match &frame {
                Some(Ok(frame)) => record.add_bytes(frame.data_ref().map_or(0, Bytes::len)),
                Some(Err(failure)) => record.set_error(failure),
                None => {}
            }
        }
        let chunk = |bytes| AnswerChunk::new(bytes, self.buffer.as_ref());
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            GatewayBodySource::Whole(bytes) => bytes.is_empty(),
            GatewayBodySource::Streamed(body) => body.is_over(),
            GatewayBodySource::H2(body) => body.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            GatewayBodySource::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            GatewayBodySource::Streamed(body) => {
                body.length().map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            GatewayBodySource::H2(body) => body.body.size_hint(),
        }
    }
}
