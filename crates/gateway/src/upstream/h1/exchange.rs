//! One request and its response.

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

/// A request that is on its way over a connection.
#[derive(Debug)]
pub(crate) struct Http1Exchange {
    link: UpstreamLink,
    outgoing: Http1Request,
    method: Method,
    idle: Duration,
    /// The service does not take the rest of the request. It may still have an answer to it.
    is_cut_off: bool,
}

/// How an exchange went.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "made once a request, for which a box costs more")]
pub(crate) enum Http1Outcome {
    /// A response that is here as a whole, and a connection that may be used again.
    Whole { status: StatusCode, headers: HeaderMap, body: Bytes, link: Option<UpstreamLink> },
    /// A response whose body is still coming.
    Streamed { status: StatusCode, headers: HeaderMap, body: UpstreamHttp1Body },
    /// From now on the connection is the client's and the service's own.
    Switched { headers: HeaderMap, link: UpstreamLink },
    /// Nothing. The request is handed back: what of it has left is known to it. `was_used` says
    /// whether the connection had seen other requests, and may have been closed after them.
    Failed { failure: UpstreamFailure, outgoing: Http1Request, was_used: bool },
}

impl Http1Exchange {
    pub(crate) fn new(
        link: UpstreamLink,
        outgoing: Http1Request,
        method: Method,
        idle: Duration,
    ) -> Self {
        Self { link, outgoing, method, idle, is_cut_off: false }
    }

    /// Sends the request, and waits for the head of the response: for so long, once all is sent.
    pub(crate) async fn run(mut self, response: Duration) -> Http1Outcome {
        match poll_fn(|cx| self.poll_head(response, cx)).await {
            Ok(head) => self.into_outcome(head),
            Err(failure) => Http1Outcome::Failed {
                failure,
                outgoing: self.outgoing,
                was_used: self.link.is_used,
            },
        }
    }

    fn into_outcome(mut self, head: UpstreamResponseHead) -> Http1Outcome {
        let UpstreamResponseHead { status, headers, mut decoder, keep_alive } = head;
        self.link.patience.restart();
        self.outgoing.stop_upload_timer();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Http1Outcome::Switched { headers, link: self.link };
        }
        let length = decoder.length().and_then(|length| usize::try_from(length).ok());
        let is_whole =
            self.outgoing.is_done() && length.is_some_and(|it| it <= self.link.read.len());
        if !is_whole {
            let body = UpstreamHttp1Body { exchange: Some(self), decoder, keep_alive, lease: None };
            return Http1Outcome::Streamed { status, headers, body };
        }
        let body = match decoder.take(&mut self.link.read) {
            Ok(Http1BodyPart::Data(data)) => data,
            _ => Bytes::new(),
        };
        let link = self.into_link(keep_alive);
        Http1Outcome::Whole { status, headers, body, link }
    }

    /// The connection, if another request may follow. Bytes that belong to no response would be
    /// taken for the next one.
    fn into_link(mut self, keep_alive: bool) -> Option<UpstreamLink> {
        let is_clean = self.outgoing.is_done() && self.link.read.is_empty();
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
                // 100 and the like announce a response that is yet to come.
                if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS
                {
                    continue;
                }
                return Poll::Ready(Ok(head));
            }
            match link.poll_read(cx) {
                Poll::Ready(Ok(1..)) => link.patience.restart(),
                Poll::Ready(Ok(0) | Err(_)) if link.read.is_empty() => {
                    return Poll::Ready(Err(UpstreamFailure::Closed));
                }
                Poll::Ready(Ok(0) | Err(_)) => {
                    return Poll::Ready(Err(UpstreamFailure::Malformed("its head breaks off")));
                }
                Poll::Pending => {
                    let is_sent = self.is_cut_off || self.outgoing.is_done();
                    let span = if is_sent { response } else { self.idle };
                    return link
                        .patience
                        .poll_expired(span, cx)
                        .map(|()| Err(UpstreamFailure::Timeout));
                }
            }
        }
    }

    /// Sends on. An error is the client's; the service's shows when it is read from.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<(), UpstreamFailure> {
        if self.is_cut_off || self.outgoing.is_done() {
            return Ok(());
        }
        let UpstreamLink { wire, patience, .. } = &mut self.link;
        match self.outgoing.poll_send(wire, cx, || patience.restart()) {
            Poll::Ready(Err(Http1SendFailure::Client)) => return Err(UpstreamFailure::Client),
            Poll::Ready(Err(Http1SendFailure::Slow)) => return Err(UpstreamFailure::Slow),
            Poll::Ready(Err(Http1SendFailure::Wire)) => self.is_cut_off = true,
            Poll::Ready(Ok(())) => patience.restart(),
            Poll::Pending => {}
        }
        Ok(())
    }
}

/// A response's body, as it comes. The rest of the request goes out meanwhile.
#[derive(Debug)]
pub(crate) struct UpstreamHttp1Body {
    /// Until the end.
    exchange: Option<Http1Exchange>,
    decoder: Http1BodyDecoder,
    keep_alive: bool,
    lease: Option<UpstreamSlot>,
}

impl UpstreamHttp1Body {
    /// The connection goes back to where it was taken from, and the request counts as under way
    /// until then.
    pub(crate) fn with_slot(mut self, lease: UpstreamSlot) -> Self {
        self.lease = Some(lease);
        self
    }

    /// How much is still to come, where that is known.
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
                // Dropped, and with it the connection: nobody may take half of it for a whole.
                self.exchange = None;
                if let Some(lease) = self.lease.take() {
                    lease.fail(&failure);
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
                    // A body whose length is known ends with its last byte, so that the connection
                    // is free before the client has got it.
                    link.patience.restart();
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
                Poll::Ready(Ok(1..)) => link.patience.restart(),
                Poll::Ready(Ok(0)) if self.decoder == Http1BodyDecoder::ToTheEnd => {
                    return Poll::Ready(Ok(None));
                }
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(UpstreamFailure::Closed)),
                Poll::Pending => {
                    let over = link.patience.poll_expired(exchange.idle, cx);
                    return over.map(|()| Err(UpstreamFailure::Timeout));
                }
            }
        }
    }

    fn end(&mut self) {
        let keep_alive = self.keep_alive;
        let link = self.exchange.take().and_then(|exchange| exchange.into_link(keep_alive));
        if let Some(lease) = self.lease.take() {
            lease.finish(link);
        }
    }
}
