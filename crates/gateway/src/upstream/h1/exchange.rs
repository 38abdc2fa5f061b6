//! One request and its response.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use hyper::body::Frame;

use super::decoder::{Decoder, Part};
use super::head::Head;
use super::link::Link;
use super::outgoing::{Outgoing, Unsent};
use crate::upstream::{Failure, Lease};

/// A request that is on its way over a connection.
#[derive(Debug)]
pub(crate) struct Exchange {
    link: Link,
    outgoing: Outgoing,
    method: Method,
    idle: Duration,
    /// The service does not take the rest of the request. It may still have an answer to it.
    is_cut_off: bool,
}

/// How an exchange went.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "made once a request, for which a box costs more")]
pub(crate) enum Outcome {
    /// A response that is here as a whole, and a connection that may be used again.
    Whole { status: StatusCode, headers: HeaderMap, body: Bytes, link: Option<Link> },
    /// A response whose body is still coming.
    Streamed { status: StatusCode, headers: HeaderMap, body: StreamedBody },
    /// From now on the connection is the client's and the service's own.
    Switched { headers: HeaderMap, link: Link },
    /// Nothing. The request is handed back: what of it has left is known to it. `was_used` says
    /// whether the connection had seen other requests, and may have been closed after them.
    Failed { failure: Failure, outgoing: Outgoing, was_used: bool },
}

impl Exchange {
    pub(crate) fn new(link: Link, outgoing: Outgoing, method: Method, idle: Duration) -> Self {
        Self { link, outgoing, method, idle, is_cut_off: false }
    }

    /// Sends the request, and waits for the head of the response: for so long, once all is sent.
    pub(crate) async fn run(mut self, response: Duration) -> Outcome {
        match poll_fn(|cx| self.poll_head(response, cx)).await {
            Ok(head) => self.received(head),
            Err(failure) => {
                Outcome::Failed { failure, outgoing: self.outgoing, was_used: self.link.is_used }
            }
        }
    }

    fn received(mut self, head: Head) -> Outcome {
        let Head { status, headers, mut decoder, keep_alive } = head;
        self.link.patience.moved();
        self.outgoing.answered();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Outcome::Switched { headers, link: self.link };
        }
        let length = decoder.length().and_then(|length| usize::try_from(length).ok());
        let is_whole =
            self.outgoing.is_done() && length.is_some_and(|it| it <= self.link.read.len());
        if !is_whole {
            let body = StreamedBody { exchange: Some(self), decoder, keep_alive, lease: None };
            return Outcome::Streamed { status, headers, body };
        }
        let body = match decoder.take(&mut self.link.read) {
            Ok(Part::Data(data)) => data,
            _ => Bytes::new(),
        };
        let link = self.into_link(keep_alive);
        Outcome::Whole { status, headers, body, link }
    }

    /// The connection, if another request may follow. Bytes that belong to no response would be
    /// taken for the next one.
    fn into_link(mut self, keep_alive: bool) -> Option<Link> {
        let is_clean = self.outgoing.is_done() && self.link.read.is_empty();
        self.link.is_used = true;
        (keep_alive && is_clean).then_some(self.link)
    }

    fn poll_head(
        &mut self,
        response: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Head, Failure>> {
        self.poll_send(cx)?;
        loop {
            let link = &mut self.link;
            if !link.read.is_empty()
                && let Some(head) = Head::take(&mut link.read, &self.method)?
            {
                // 100 and the like announce a response that is yet to come.
                if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS
                {
                    continue;
                }
                return Poll::Ready(Ok(head));
            }
            match link.poll_read(cx) {
                Poll::Ready(Ok(1..)) => link.patience.moved(),
                Poll::Ready(Ok(0) | Err(_)) if link.read.is_empty() => {
                    return Poll::Ready(Err(Failure::Closed));
                }
                Poll::Ready(Ok(0) | Err(_)) => {
                    return Poll::Ready(Err(Failure::Garbage("its head breaks off")));
                }
                Poll::Pending => {
                    let is_sent = self.is_cut_off || self.outgoing.is_done();
                    let span = if is_sent { response } else { self.idle };
                    return link.patience.poll_over(span, cx).map(|()| Err(Failure::Timeout));
                }
            }
        }
    }

    /// Sends on. An error is the client's; the service's shows when it is read from.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        if self.is_cut_off || self.outgoing.is_done() {
            return Ok(());
        }
        let Link { wire, patience, .. } = &mut self.link;
        match self.outgoing.poll_send(wire, cx, || patience.moved()) {
            Poll::Ready(Err(Unsent::Client)) => return Err(Failure::Client),
            Poll::Ready(Err(Unsent::Slow)) => return Err(Failure::Slow),
            Poll::Ready(Err(Unsent::Wire)) => self.is_cut_off = true,
            Poll::Ready(Ok(())) => patience.moved(),
            Poll::Pending => {}
        }
        Ok(())
    }
}

/// A response's body, as it comes. The rest of the request goes out meanwhile.
#[derive(Debug)]
pub(crate) struct StreamedBody {
    /// Until the end.
    exchange: Option<Exchange>,
    decoder: Decoder,
    keep_alive: bool,
    lease: Option<Lease>,
}

impl StreamedBody {
    /// The connection goes back to where it was taken from, and the request counts as under way
    /// until then.
    pub(crate) fn held_by(mut self, lease: Lease) -> Self {
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
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
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
                    lease.failed(&failure);
                }
                Poll::Ready(Some(Err(failure)))
            }
        }
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, Failure>> {
        let Some(exchange) = &mut self.exchange else { return Poll::Ready(Ok(None)) };
        exchange.poll_send(cx)?;
        loop {
            let link = &mut exchange.link;
            match self.decoder.take(&mut link.read)? {
                Part::Data(data) => {
                    // A body whose length is known ends with its last byte, so that the connection
                    // is free before the client has got it.
                    link.patience.moved();
                    if self.decoder == Decoder::Sized(0) {
                        self.end();
                    }
                    return Poll::Ready(Ok(Some(Frame::data(data))));
                }
                Part::Trailers(trailers) => {
                    return Poll::Ready(Ok(Some(Frame::trailers(trailers))));
                }
                Part::End => return Poll::Ready(Ok(None)),
                Part::More => {}
            }
            match link.poll_read(cx) {
                Poll::Ready(Ok(1..)) => link.patience.moved(),
                Poll::Ready(Ok(0)) if self.decoder == Decoder::ToTheEnd => {
                    return Poll::Ready(Ok(None));
                }
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(Failure::Closed)),
                Poll::Pending => {
                    let over = link.patience.poll_over(exchange.idle, cx);
                    return over.map(|()| Err(Failure::Timeout));
                }
            }
        }
    }

    fn end(&mut self) {
        let keep_alive = self.keep_alive;
        let link = self.exchange.take().and_then(|exchange| exchange.into_link(keep_alive));
        if let Some(lease) = self.lease.take() {
            lease.ended(link);
        }
    }
}
