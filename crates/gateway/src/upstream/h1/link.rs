//! An HTTP/1 connection to a service, used for one request after the other.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use tidegate_server::StallTimer;
use tokio::io::{AsyncRead as _, AsyncReadExt as _, ReadBuf};

use crate::upstream::stream::UpstreamStream;

/// A connection to a service, with the bytes that were read but not parsed yet.
#[derive(Debug)]
pub(crate) struct UpstreamLink {
    pub(crate) stream: UpstreamStream,
    pub(crate) read: BytesMut,
    pub(crate) stall_timer: StallTimer,
    /// Whether an earlier request was answered on it.
    pub(crate) is_used: bool,
    /// The capacity to reserve for a read. It doubles when a read fills the buffer.
    room: usize,
}

impl UpstreamLink {
    pub(crate) fn new(stream: UpstreamStream) -> Self {
        let stall_timer = StallTimer::default();
        Self { stream, read: BytesMut::new(), stall_timer, is_used: false, room: LEAST_ROOM }
    }

    /// Reads more bytes; zero means the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.read.capacity() - self.read.len() < LEAST_ROOM / 4 {
            self.read.reserve(self.room);
        }
        let room = self.read.capacity() - self.read.len();
        let count = ready!(pin!(self.stream.read_buf(&mut self.read)).poll(cx))?;
        if count == room {
            self.room = (self.room * 2).min(MOST_ROOM);
        }
        Poll::Ready(Ok(count))
    }

    /// Whether it can be used again: the service has neither closed it nor sent any bytes. Such bytes would
    /// be taken for the response to the next request.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let (mut byte, mut cx) = ([0; 1], Context::from_waker(Waker::noop()));
        let mut buf = ReadBuf::new(&mut byte);
        self.read.is_empty() && Pin::new(&mut self.stream).poll_read(&mut cx, &mut buf).is_pending()
    }
}

const LEAST_ROOM: usize = 8 << 10;
const MOST_ROOM: usize = 64 << 10;
