//! The body of a response, wherever it comes from.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

use crate::buffers::{Outbox, Piece};
use crate::connection::Busy;
use crate::log::Record;
use crate::upstream::{Failure, Lease, Patience, StreamedBody};

/// A body that is on its way to a client, and what ends with it.
#[derive(Debug)]
pub(crate) struct Body {
    source: Source,
    /// Written down when all is sent, or when it is clear that it will not be.
    record: Option<Box<Record>>,
    /// Until then the connection is busy.
    _busy: Option<Busy>,
    /// HTTP/2: what of it the client has not taken.
    outbox: Option<Arc<Outbox>>,
}

#[derive(Debug)]
enum Source {
    Whole(Bytes),
    Streamed(Box<StreamedBody>),
    H2(Box<OverH2>),
}

/// A body that comes over HTTP/2.
#[derive(Debug)]
struct OverH2 {
    body: Incoming,
    lease: Option<Lease>,
    patience: Patience,
    idle: Duration,
}

impl Body {
    pub(crate) const fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    pub(crate) const fn whole(bytes: Bytes) -> Self {
        Self { source: Source::Whole(bytes), record: None, _busy: None, outbox: None }
    }

    pub(crate) fn streamed(body: StreamedBody) -> Self {
        Self { source: Source::Streamed(Box::new(body)), ..Self::empty() }
    }

    pub(crate) fn of_h2(body: Incoming, lease: Lease, idle: Duration) -> Self {
        let (lease, patience) = (Some(lease), Patience::default());
        let body = OverH2 { body, lease, patience, idle };
        Self { source: Source::H2(Box::new(body)), ..Self::empty() }
    }

    /// Writes the request down when the body has ended.
    pub(crate) fn recorded(self, record: Option<Box<Record>>) -> Self {
        Self { record, ..self }
    }

    /// The connection is busy until the body has ended.
    pub(crate) fn busy(self, busy: Busy) -> Self {
        let outbox = busy.buffers().map(Outbox::new);
        Self { _busy: Some(busy), outbox, ..self }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        match &mut self.source {
            Source::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Source::Streamed(body) => body.poll_frame(cx),
            Source::H2(body) => body.poll_frame(cx),
        }
    }
}

impl OverH2 {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => frame.map(|frame| frame.map_err(|_| Failure::Closed)),
            Poll::Pending => {
                ready!(self.patience.poll_over(self.idle, cx));
                Some(Err(Failure::Timeout))
            }
        };
        self.patience.moved();
        if let Some(Err(failure)) = &frame
            && let Some(lease) = self.lease.take()
        {
            lease.failed(failure);
        }
        Poll::Ready(frame)
    }
}

impl HttpBody for Body {
    type Data = Piece;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Failure>>> {
        if let Some(outbox) = &self.outbox {
            ready!(outbox.poll_room(cx));
        }
        let frame = ready!(self.poll_source(cx));
        if let Some(record) = &mut self.record {
            match &frame {
                Some(Ok(frame)) => record.sent(frame.data_ref().map_or(0, Bytes::len)),
                Some(Err(failure)) => record.broke_off(failure),
                None => {}
            }
        }
        let piece = |bytes| Piece::new(bytes, self.outbox.as_ref());
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Whole(bytes) => bytes.is_empty(),
            Source::Streamed(body) => body.is_over(),
            Source::H2(body) => body.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Streamed(body) => {
                body.length().map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            Source::H2(body) => body.body.size_hint(),
        }
    }
}
