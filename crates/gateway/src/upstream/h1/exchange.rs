//! One exchange over HTTP/1: sends a request, and reads its response at the same time.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use hyper::body::Frame;

use super::decoder::{Http1BodyDecoder, Http1BodyPart};
use super::head::UpstreamResponseHead;
use super::link::UpstreamLink;
use super::request::{Http1Request, Http1SendFailure};
use crate::upstream::{UpstreamFailure, UpstreamSlot};

/// A request that is being sent and answered on a connection.
#[derive(Debug)]
pub(crate) struct Http1Exchange {
    link: UpstreamLink,
    request: Http1Request,
    method: Method,
    idle: Duration,
    /// The service does not accept the rest of the request, but it can still respond.
    is_cut_off: bool,
}

/// The outcome of an exchange.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "made once a request, for which a box costs more")]
pub(crate) enum Http1Outcome {
    /// A complete response, and the connection if it can be used again.
    Whole { status: StatusCode, headers: HeaderMap, body: Bytes, link: Option<UpstreamLink> },
    /// A response whose body is still arriving.
    Streamed { status: StatusCode, headers: HeaderMap, body: UpstreamHttp1Body },
    /// The connection was switched to another protocol.
    Switched { headers: HeaderMap, link: UpstreamLink },
    /// No response. The request is returned, and knows whether a part of it was sent. `was_used` means that
    /// the connection had served other requests, so the service may have closed it after those.
    Failed { failure: UpstreamFailure, request: Http1Request, was_used: bool },
}

impl Http1Exchange {
    pub(crate) fn new(
        link: UpstreamLink,
        request: Http1Request,
        method: Method,
        idle: Duration,
    ) -> Self {
        Self { link, request, method, idle, is_cut_off: false }
    }

    /// Sends the request, and waits for the head of the response. The timeout `response` applies once the
    /// whole request is sent.
    pub(crate) async fn run(mut self, response: Duration) -> Http1Outcome {
        match poll_fn(|cx| self.poll_head(response, cx)).await {
            Ok(head) => self.into_outcome(head),
            Err(failure) => {
                Http1Outcome::Failed { failure, request: self.request, was_used: self.link.is_used }
            }
        }
    }

    fn into_outcome(mut self, head: UpstreamResponseHead) -> Http1Outcome {
        let UpstreamResponseHead { status, headers, mut decoder, keep_alive } = head;
        self.link.stall_timer.restart();
        self.request.stop_upload_timer();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Http1Outcome::Switched { headers, link: self.link };
        }
        let length = decoder.length().and_then(|length| usize::try_from(length).ok());
        let is_whole =
            self.request.is_done() && length.is_some_and(|it| it <= self.link.read.len());
        if !is_whole {
            let body = UpstreamHttp1Body { exchange: Some(self), decoder, keep_alive, slot: None };
            return Http1Outcome::Streamed { status, headers, body };
        }
        let body = match decoder.take(&mut self.link.read) {
            Ok(Http1BodyPart::Data(data)) => data,
            _ => Bytes::new(),
        };
        let link = self.into_link(keep_alive);
        Http1Outcome::Whole { status, headers, body, link }
    }

    /// The connection, if it can be used for another request. Surplus bytes would be taken for the next
    /// response.
    fn into_link(mut self, keep_alive: bool) -> Option<UpstreamLink> {
        let is_clean = self.request.is_done() && self.link.read.is_empty();
        self.link.is_used = true;
        (keep_alive && is_clean).then_some(self.link)
    }

    fn poll_head(
        &mut self,
        response: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Result<UpstreamResponseHead, UpstreamFailure>> {
        self.poll_send(cx)?;
        loop {
            let link = &mut self.link;
            if !link.read.is_empty()
                && let Some(head) = UpstreamResponseHead::take(&mut link.read, &self.method)?
            {
                // An informational status such as 100 precedes the real response.
                if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS
                {
                    continue;
                }
                return Poll::Ready(Ok(head));
            }
            match link.poll_read(cx) {
                Poll::Ready(Ok(1..)) => link.stall_timer.restart(),
                Poll::Ready(Ok(0) | Err(_)) if link.read.is_empty() => {
                    return Poll::Ready(Err(UpstreamFailure::Closed));
                }
                Poll::Ready(Ok(0) | Err(_)) => {
                    return Poll::Ready(Err(UpstreamFailure::Malformed("its head is incomplete")));
                }
                Poll::Pending => {
                    let is_sent = self.is_cut_off || self.request.is_done();
                    let span = if is_sent { response } else { self.idle };
                    return link
                        .stall_timer
                        .poll_expired(span, cx)
                        .map(|()| Err(UpstreamFailure::Timeout));
                }
            }
        }
    }

    /// Continues to send. Only the client's failures are errors; those of the service show when reading.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<(), UpstreamFailure> {
        if self.is_cut_off || self.request.is_done() {
            return Ok(());
        }
        let UpstreamLink { stream, stall_timer, .. } = &mut self.link;
        match self.request.poll_send(stream, cx, || stall_timer.restart()) {
            Poll::Ready(Err(Http1SendFailure::Client)) => return Err(UpstreamFailure::Client),
            Poll::Ready(Err(Http1SendFailure::Slow)) => return Err(UpstreamFailure::Slow),
            Poll::Ready(Err(Http1SendFailure::Wire)) => self.is_cut_off = true,
            Poll::Ready(Ok(())) => stall_timer.restart(),
            Poll::Pending => {}
        }
        Ok(())
    }
}

/// The body of a response as it arrives. The rest of the request is sent meanwhile.
#[derive(Debug)]
pub(crate) struct UpstreamHttp1Body {
    /// `None` after the end.
    exchange: Option<Http1Exchange>,
    decoder: Http1BodyDecoder,
    keep_alive: bool,
    slot: Option<UpstreamSlot>,
}

impl UpstreamHttp1Body {
    /// The slot counts the request as under way until the end of the body, and then returns the connection
    /// to the pool.
    pub(crate) fn with_slot(mut self, slot: UpstreamSlot) -> Self {
        self.slot = Some(slot);
        self
    }

    /// How many bytes are left, if that is known.
    pub(crate) const fn length(&self) -> Option<u64> {
        self.decoder.length()
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.exchange.is_none()
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamFailure>>> {
        match ready!(self.poll_part(cx)) {
            Ok(Some(frame)) => Poll::Ready(Some(Ok(frame))),
            Ok(None) => {
                self.end();
                Poll::Ready(None)
            }
            Err(failure) => {
                // Closes the connection: half a response must not be taken for a whole one.
                self.exchange = None;
                if let Some(slot) = self.slot.take() {
                    slot.fail(&failure);
                }
                Poll::Ready(Some(Err(failure)))
            }
        }
    }

    fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Frame<Bytes>>, UpstreamFailure>> {
        let Some(exchange) = &mut self.exchange else { return Poll::Ready(Ok(None)) };
        exchange.poll_send(cx)?;
        loop {
            let link = &mut exchange.link;
            match self.decoder.take(&mut link.read)? {
                Http1BodyPart::Data(data) => {
                    // A body of known length ends with its last byte, so that the connection is free
                    // before the client has received it.
                    link.stall_timer.restart();
                    if self.decoder == Http1BodyDecoder::Sized(0) {
                        self.end();
                    }
                    return Poll::Ready(Ok(Some(Frame::data(data))));
                }
                Http1BodyPart::Trailers(trailers) => {
                    return Poll::Ready(Ok(Some(Frame::trailers(trailers))));
                }
                Http1BodyPart::End => return Poll::Ready(Ok(None)),
                Http1BodyPart::More => {}
            }
            match link.poll_read(cx) {
                Poll::Ready(Ok(1..)) => link.stall_timer.restart(),
                Poll::Ready(Ok(0)) if self.decoder == Http1BodyDecoder::ToTheEnd => {
                    return Poll::Ready(Ok(None));
                }
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(UpstreamFailure::Closed)),
                Poll::Pending => {
                    let over = link.stall_timer.poll_expired(exchange.idle, cx);
                    return over.map(|()| Err(UpstreamFailure::Timeout));
                }
            }
        }
    }

    fn end(&mut self) {
        let keep_alive = self.keep_alive;
        let link = self.exchange.take().and_then(|exchange| exchange.into_link(keep_alive));
        if let Some(slot) = self.slot.take() {
            slot.finish(link);
        }
    }
}
