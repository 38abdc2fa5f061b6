//! A connection that requests follow each other on.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead as _, AsyncReadExt as _, ReadBuf};

use crate::upstream::stall_timer::StallTimer;
use crate::upstream::stream::UpstreamStream;

/// A connection to a service, and what has been read from it but not understood yet.
#[derive(Debug)]
pub(crate) struct UpstreamLink {
    pub(crate) wire: UpstreamStream,
    pub(crate) read: BytesMut,
    pub(crate) patience: StallTimer,
    /// Whether a request was answered on it before.
    pub(crate) is_used: bool,
    /// How much to make room for: as much as came the last time.
    room: usize,
}

impl UpstreamLink {
    pub(crate) fn new(wire: UpstreamStream) -> Self {
        let patience = StallTimer::default();
        Self { wire, read: BytesMut::new(), patience, is_used: false, room: LEAST_ROOM }
    }

    /// Reads some more; zero is the end.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.read.capacity() - self.read.len() < LEAST_ROOM / 4 {
            self.read.reserve(self.room);
        }
        let room = self.read.capacity() - self.read.len();
        let count = ready!(pin!(self.wire.read_buf(&mut self.read)).poll(cx))?;
        if count == room {
            self.room = (self.room * 2).min(MOST_ROOM);
        }
        Poll::Ready(Ok(count))
    }

    /// Whether it is still of use: the other side has neither closed it nor said anything, which
    /// could only be meant for somebody else's request.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let (mut byte, mut cx) = ([0; 1], Context::from_waker(Waker::noop()));
        let mut buf = ReadBuf::new(&mut byte);
        self.read.is_empty() && Pin::new(&mut self.wire).poll_read(&mut cx, &mut buf).is_pending()
    }
}

const LEAST_ROOM: usize = 8 << 10;
const MOST_ROOM: usize = 64 << 10;
