//! Writes a request to a service over HTTP/1: its head, and then its body as it arrives.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hyper::body::Frame;
use tokio::io::AsyncWrite;

use crate::forward::TrailerFilter;
use crate::upstream::upload::{UploadBody, UploadFailure};

/// How the body of a forwarded request is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardFraming {
    /// By `Content-Length`, or not at all without a body.
    Sized,
    /// In chunks.
    Chunked,
}

/// The part of a request that is left to send.
#[derive(Debug)]
pub(crate) struct Http1Request {
    head: BytesMut,
    /// The line with the size of a chunk, before the piece.
    before: BytesMut,
    /// The current piece of the body.
    piece: Bytes,
    /// The end of a chunk or of the body, after the piece.
    after: BytesMut,
    body: Option<UploadBody>,
    framing: ForwardFraming,
    trailers: TrailerFilter,
    sent: bool,
}

/// The reason why a request could not be sent completely.
#[derive(Debug)]
pub(crate) enum Http1SendFailure {
    /// The connection to the service failed.
    Wire,
    /// The client aborted the request.
    Client,
    /// The client sends the body too slowly.
    Slow,
}

impl Http1Request {
    pub(crate) fn new(
        head: BytesMut,
        body: Option<UploadBody>,
        framing: ForwardFraming,
        trailers: TrailerFilter,
    ) -> Self {
        let (before, after) = (BytesMut::new(), BytesMut::new());
        Self { head, before, piece: Bytes::new(), after, body, framing, trailers, sent: false }
    }

    /// Replaces a head that was not sent.
    pub(crate) fn with_head(self, head: BytesMut) -> Self {
        Self { head, ..self }
    }

    /// The body of a request, if no part of it was read yet.
    pub(crate) fn into_body(self) -> Option<UploadBody> {
        self.body.filter(|_| self.piece.is_empty())
    }

    /// Whether a part of the body was read but not sent, so that [`Self::into_body`] would lose it.
    pub(crate) fn holds_body(&self) -> bool {
        !self.piece.is_empty() || !self.after.is_empty()
    }

    /// Called when the service has begun to respond.
    pub(crate) fn stop_upload_timer(&mut self) {
        if let Some(body) = &mut self.body {
            body.stop_timer();
        }
    }

    /// Whether the request has only a head.
    pub(crate) fn is_bodiless(&self) -> bool {
        self.body.is_none() && self.piece.is_empty() && self.after.is_empty()
    }

    /// Whether any byte of the request was sent: from then on the service may have acted on it.
    pub(crate) const fn has_begun(&self) -> bool {
        self.sent
    }

    /// Whether the whole request was sent.
    pub(crate) fn is_done(&self) -> bool {
        self.body.is_none() && self.is_written()
    }

    fn is_written(&self) -> bool {
        self.head.is_empty()
            && self.before.is_empty()
            && self.piece.is_empty()
            && self.after.is_empty()
    }

    /// Sends as much as the service accepts and the client provides. Calls `on_progress` after each step.
    pub(crate) fn poll_send(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
        mut on_progress: impl FnMut(),
    ) -> Poll<Result<(), Http1SendFailure>> {
        // A part of the body that has already arrived is sent together with the head.
        let mut body_poll = Poll::Ready(());
        if !self.sent && self.piece.is_empty() {
            body_poll = self.poll_next(cx)?;
        }
        loop {
            while !self.is_written() {
                ready!(self.poll_write(stream, cx)).map_err(|_| Http1SendFailure::Wire)?;
                on_progress();
            }
            if body_poll.is_pending() || self.body.is_none() {
                ready!(Pin::new(&mut *stream).poll_flush(cx))
                    .map_err(|_| Http1SendFailure::Wire)?;
                return body_poll.map(Ok);
            }
            body_poll = self.poll_next(cx)?;
            if body_poll.is_ready() {
                on_progress();
            }
        }
    }

    /// The next piece of the body, or its end.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Http1SendFailure>> {
        let Some(body) = &mut self.body else { return Poll::Ready(Ok(())) };
        match ready!(body.poll_frame(cx)) {
            Some(Ok(frame)) => self.take(frame),
            // No end is written: a service must not take half a request for a whole one.
            Some(Err(UploadFailure::Broken)) => return Poll::Ready(Err(Http1SendFailure::Client)),
            Some(Err(UploadFailure::Slow)) => return Poll::Ready(Err(Http1SendFailure::Slow)),
            None => self.finish(None),
        }
        Poll::Ready(Ok(()))
    }

    fn take(&mut self, frame: Frame<Bytes>) {
        match frame.into_data() {
            Ok(data) if data.is_empty() => {}
            Ok(data) => {
                if self.framing == ForwardFraming::Chunked {
                    put_hex(&mut self.before, data.len());
                    self.before.put_slice(b"\r\n");
                    self.after.put_slice(b"\r\n");
                }
                self.piece = data;
            }
            Err(frame) => self.finish(frame.into_trailers().ok().as_ref()),
        }
    }

    fn finish(&mut self, trailers: Option<&http::HeaderMap>) {
        self.body = None;
        if self.framing == ForwardFraming::Chunked {
            self.after.put_slice(b"0\r\n");
            let trailers = trailers.into_iter().flatten();
            for (name, value) in trailers.filter(|(name, _)| self.trailers.passes(name)) {
                self.after.put_slice(name.as_str().as_bytes());
                self.after.put_slice(b": ");
                self.after.put_slice(value.as_bytes());
                self.after.put_slice(b"\r\n");
            }
            self.after.put_slice(b"\r\n");
        }
    }

    fn poll_write(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let written = if self.piece.is_empty() && self.after.is_empty() {
            ready!(Pin::new(stream).poll_write(cx, &self.head))?
        } else {
            let pieces = [&self.head[..], &self.before, &self.piece, &self.after].map(IoSlice::new);
            ready!(Pin::new(stream).poll_write_vectored(cx, &pieces))?
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.sent = true;
        self.advance(written);
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut written: usize) {
        let parts: [&mut dyn Buf; 4] =
            [&mut self.head, &mut self.before, &mut self.piece, &mut self.after];
        for part in parts {
            let count = written.min(part.remaining());
            part.advance(count);
            written -= count;
        }
    }
}

fn put_hex(out: &mut BytesMut, number: usize) {
    let digits = format!("{number:x}");
    out.put_slice(digits.as_bytes());
}
