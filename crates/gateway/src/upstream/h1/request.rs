//! A request on its way to a service: its head, and then its body as it comes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hyper::body::Frame;
use tokio::io::AsyncWrite;

use crate::forward::TrailerFilter;
use crate::upstream::upload::{UploadBody, UploadFailure};

/// How a body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardFraming {
    /// By its length, which the head says; nothing for no body.
    Sized,
    /// In chunks.
    Chunked,
}

/// What is left to be sent.
#[derive(Debug)]
pub(crate) struct Http1Request {
    head: BytesMut,
    /// What comes before a piece of the body.
    before: BytesMut,
    /// A piece of the body.
    piece: Bytes,
    /// What comes after it.
    after: BytesMut,
    body: Option<UploadBody>,
    framing: ForwardFraming,
    trailers: TrailerFilter,
    sent: bool,
}

/// Why a request could not be sent to its end.
#[derive(Debug)]
pub(crate) enum Http1SendFailure {
    /// The service does not take it.
    Wire,
    /// The client does not bring it.
    Client,
    /// It brings it too slowly.
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

    /// Another head in place of one that has not left.
    pub(crate) fn with_head(self, head: BytesMut) -> Self {
        Self { head, ..self }
    }

    /// The body, of a request of which nothing has left or come in.
    pub(crate) fn into_body(self) -> Option<UploadBody> {
        self.body.filter(|_| self.piece.is_empty())
    }

    /// Whether some of the body was read and has not left, so that [`Self::into_body`] would lose it.
    pub(crate) fn holds_body(&self) -> bool {
        !self.piece.is_empty() || !self.after.is_empty()
    }

    /// The service has begun to answer.
    pub(crate) fn stop_upload_timer(&mut self) {
        if let Some(body) = &mut self.body {
            body.stop_timer();
        }
    }

    /// Whether there is nothing but a head.
    pub(crate) fn is_bodiless(&self) -> bool {
        self.body.is_none() && self.piece.is_empty() && self.after.is_empty()
    }

    /// Whether a single byte of it has left: from then on it may have been understood.
    pub(crate) const fn has_begun(&self) -> bool {
        self.sent
    }

    /// Whether all of it has left.
    pub(crate) fn is_done(&self) -> bool {
        self.body.is_none() && self.is_written()
    }

    fn is_written(&self) -> bool {
        self.head.is_empty()
            && self.before.is_empty()
            && self.piece.is_empty()
            && self.after.is_empty()
    }

    /// Sends as much as the service takes and the client brings; `moved` hears of every step.
    pub(crate) fn poll_send(
        &mut self,
        wire: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
        mut moved: impl FnMut(),
    ) -> Poll<Result<(), Http1SendFailure>> {
        // Whatever of the body is there already leaves together with the head.
        let mut brought = Poll::Ready(());
        if !self.sent && self.piece.is_empty() {
            brought = self.poll_next(cx)?;
        }
        loop {
            while !self.is_written() {
                ready!(self.poll_write(wire, cx)).map_err(|_| Http1SendFailure::Wire)?;
                moved();
            }
            if brought.is_pending() || self.body.is_none() {
                ready!(Pin::new(&mut *wire).poll_flush(cx)).map_err(|_| Http1SendFailure::Wire)?;
                return brought.map(Ok);
            }
            brought = self.poll_next(cx)?;
            if brought.is_ready() {
                moved();
            }
        }
    }

    /// The next piece of the body, or its end.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Http1SendFailure>> {
        let Some(body) = &mut self.body else { return Poll::Ready(Ok(())) };
        match ready!(body.poll_frame(cx)) {
            Some(Ok(frame)) => self.take(frame),
            // Not finished: whoever sees half a request must not take it for a whole one.
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
        wire: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let written = if self.piece.is_empty() && self.after.is_empty() {
            ready!(Pin::new(wire).poll_write(cx, &self.head))?
        } else {
            let pieces = [&self.head[..], &self.before, &self.piece, &self.after].map(IoSlice::new);
            ready!(Pin::new(wire).poll_write_vectored(cx, &pieces))?
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
