//! The progress of an HTTP connection, from which its timer tells how long it may go on like that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use http::header::CONNECTION;
use http::{HeaderValue, Response, StatusCode};
use parking_lot::Mutex;

use crate::net::framing::InboundFraming;
use crate::net::seats::SeatUse;

/// The progress of a connection. Shared by its stream, its requests and its timer.
#[derive(Clone, Debug)]
pub struct HttpProgress(Arc<HttpProgressState>);

#[derive(Debug)]
struct HttpProgressState {
    /// The lower half counts the requests that are being answered, the upper half counts steps. Each step
    /// restarts the timer.
    activity: AtomicU64,
    /// HTTP/1: whether a head is incomplete.
    is_in_head: AtomicBool,
    /// HTTP/1: whether a request was received completely, and nothing of the next one.
    is_between: AtomicBool,
    /// HTTP/2: the number of the head that is incomplete; zero if there is none.
    partial_head: AtomicU32,
    /// HTTP/2: the last stream that a request has begun.
    last_stream: AtomicU32,
    /// Whether the client does not read its responses.
    is_stuck: AtomicBool,
    is_closing: AtomicBool,
    is_http2: AtomicBool,
    seat_use: SeatUse,
    switch: ProtocolSwitch,
}

/// What a connection is doing, which determines its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpPhase {
    /// HTTP/1: a head is incomplete.
    Head,
    /// Requests are being answered; their bodies and services have timeouts of their own.
    Busy,
    /// The client does not read its responses.
    Stuck,
    /// No request is in progress. HTTP/2 also carries frames that are not requests, so it is idle even
    /// while frames arrive. A partial head has a timer of its own.
    Idle,
}

impl HttpProgress {
    /// The progress of a connection whose first bytes have arrived.
    pub(super) fn new(seat_use: SeatUse) -> Self {
        Self(Arc::new(HttpProgressState {
            activity: AtomicU64::new(0),
            is_in_head: AtomicBool::new(true),
            is_between: AtomicBool::new(false),
            partial_head: AtomicU32::new(0),
            last_stream: AtomicU32::new(0),
            is_stuck: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            is_http2: AtomicBool::new(false),
            seat_use,
            switch: ProtocolSwitch::default(),
        }))
    }

    /// Whether the connection is HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.0.is_http2.load(Ordering::Relaxed)
    }

    /// Records whether the last request was denied: such connections are closed first if seats are short.
    pub fn record_answer(&self, is_denial: bool) {
        self.0.seat_use.set_denied(is_denial);
    }

    /// Sets whether a request to switch protocols was granted. The stream is not read before that.
    pub fn set_switched(&self, is_switched: bool) {
        self.0.switch.set(is_switched);
    }

    /// Records that a request's head is complete.
    pub(crate) fn begin(&self) -> ActiveRequest {
        self.0.activity.fetch_add(STEP | 1, Ordering::Relaxed);
        self.0.seat_use.mark_served();
        ActiveRequest(self.clone())
    }

    /// Records that HTTP/1 requests were answered immediately, without hyper and without guards.
    pub(crate) fn mark_answered(&self) {
        self.0.seat_use.mark_served();
        self.0.is_in_head.store(false, Ordering::Relaxed);
        self.0.is_between.store(true, Ordering::Relaxed);
        self.step();
    }

    /// Whether the connection has to end soon.
    pub(crate) fn is_closing(&self) -> bool {
        self.0.is_closing.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self) {
        self.0.is_closing.store(true, Ordering::Relaxed);
        self.step();
    }

    pub(super) fn set_http2(&self) {
        self.0.is_http2.store(true, Ordering::Relaxed);
        self.set_in_head(false);
    }

    /// Records the framing after bytes were received.
    pub(super) fn record_framing(&self, framing: &InboundFraming) {
        if self.is_http2() {
            let partial_head = framing.unfinished().unwrap_or_default();
            self.0.partial_head.store(partial_head, Ordering::Relaxed);
            self.0.last_stream.store(framing.last_stream(), Ordering::Relaxed);
        } else {
            self.0.is_between.store(framing.is_between_requests(), Ordering::Relaxed);
            self.set_in_head(framing.is_in_head());
        }
    }

    /// Records whether the client does not read its responses.
    pub(super) fn set_stuck(&self, is_stuck: bool) {
        // Nearly always nothing changes, and nothing is written.
        if is_stuck != self.0.is_stuck.load(Ordering::Relaxed) {
            self.0.is_stuck.store(is_stuck, Ordering::Relaxed);
            self.step();
        }
    }

    fn set_in_head(&self, is_in_head: bool) {
        if is_in_head != self.0.is_in_head.load(Ordering::Relaxed) {
            self.0.is_in_head.store(is_in_head, Ordering::Relaxed);
            self.step();
        }
    }

    fn step(&self) {
        self.0.activity.fetch_add(STEP, Ordering::Relaxed);
    }

    /// Changes with every step, and with every request that begins or ends.
    pub(super) fn activity(&self) -> u64 {
        self.0.activity.load(Ordering::Relaxed)
    }

    pub(super) fn phase(&self) -> HttpPhase {
        let is_busy = self.activity() & ACTIVE > 0;
        if !is_busy && self.0.is_in_head.load(Ordering::Relaxed) {
            HttpPhase::Head
        } else if self.0.is_stuck.load(Ordering::Relaxed) {
            HttpPhase::Stuck
        } else if is_busy {
            HttpPhase::Busy
        } else {
            HttpPhase::Idle
        }
    }

    /// HTTP/1: whether everything that was received is a request, and nothing of the next one.
    pub(super) fn is_between(&self) -> bool {
        self.0.is_between.load(Ordering::Relaxed)
    }

    /// HTTP/2: the number of the head that is incomplete; zero if there is none.
    pub(super) fn partial_head(&self) -> u32 {
        self.0.partial_head.load(Ordering::Relaxed)
    }

    /// HTTP/2: the last stream that a request has begun.
    pub(super) fn last_stream(&self) -> u32 {
        self.0.last_stream.load(Ordering::Relaxed)
    }

    /// Resolves when a request to switch protocols is answered, to whether it was granted.
    pub(super) fn poll_switched(&self, cx: &Context<'_>) -> Poll<bool> {
        self.0.switch.poll(cx)
    }
}

const STEP: u64 = 1 << 32;
const ACTIVE: u64 = STEP - 1;

/// A request that is being answered. Dropped when it is answered, or when its client gives up.
#[derive(Debug)]
pub struct ActiveRequest(HttpProgress);

impl ActiveRequest {
    /// Tells an HTTP/1 client that this response is the last one, if the connection closes. HTTP/2 has a
    /// frame for that. Call this when the response is ready, because the server can close meanwhile.
    pub fn announce_close<B>(&self, response: &mut Response<B>) {
        let is_switch = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if self.0.is_closing() && !self.0.is_http2() && !is_switch {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.0.activity.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a request to switch protocols was granted.
#[derive(Debug, Default)]
struct ProtocolSwitch(Mutex<(Option<bool>, Option<Waker>)>);

impl ProtocolSwitch {
    fn set(&self, is_switched: bool) {
        let mut switch = self.0.lock();
        switch.0 = Some(is_switched);
        if let Some(waker) = switch.1.take() {
            waker.wake();
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<bool> {
        let mut switch = self.0.lock();
        match switch.0.take() {
            Some(is_switched) => Poll::Ready(is_switched),
            None => {
                switch.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
