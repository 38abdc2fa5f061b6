//! Where requests begin and end on a connection, by the strictest reading.
//!
//! hyper reads HTTP/1 as RFC 9112 allows a server to: given both a length and chunks it believes
//! the chunks, and given two equal lengths it takes one. That is safe for a program that alone
//! reads the connection. But there may be a proxy in front of us, or we may be one, and others may
//! read it differently. So this follows along, byte by byte, and corrupts anything that could be
//! read in two ways before hyper sees it, which then answers 400 and closes.
//!
//! For HTTP/2, which is clear about where things end, it follows whether a head has arrived in
//! part, and ends a connection that is flooded with frames that ask for nothing.

mod chunks;
mod frames;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod glitch_budget;
mod head;

use tokio::io::ReadBuf;

use self::chunks::{ChunkFollower, ChunkStep};
use self::frames::FrameFollower;
use self::head::{Http1Head, RequestBodyFraming};

/// Follows the requests on one connection.
///
/// ```
/// use tidegate_server::framing::InboundFraming;
/// use tokio::io::ReadBuf;
///
/// let mut read = *b"POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n";
/// let mut buf = ReadBuf::new(&mut read);
/// buf.set_filled(buf.capacity());
/// let mut framing = InboundFraming::http1();
/// framing.follow(&mut buf, 0);
/// assert!(framing.is_broken());
/// ```
#[derive(Debug)]
pub struct InboundFraming {
    state: FramingState,
    /// What has arrived of a head.
    head: Vec<u8>,
    /// Whether requests are passed on to others.
    is_proxy: bool,
}

#[derive(Debug)]
enum FramingState {
    Head,
    Sized(u64),
    Chunked(ChunkFollower),
    /// A request that may change what the connection is. Nothing more is read until it is answered.
    Upgrade,
    /// For HTTP/2.
    Frames(FrameFollower),
    /// No longer HTTP.
    Open,
    /// A head that was corrupted, and has no end yet.
    Corrupted,
    Broken,
}

/// What becomes of bytes that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FramingVerdict {
    /// This many are handed on. The others are kept, or lost if the connection is broken.
    pass: usize,
    /// Whether the last of them is corrupted.
    is_corrupted: bool,
}

impl InboundFraming {
    /// For HTTP/1 that is answered here: a host may be missing, and no other protocol ever follows.
    pub const fn http1() -> Self {
        Self { state: FramingState::Head, head: Vec::new(), is_proxy: false }
    }

    /// For HTTP/1 that is passed on.
    pub const fn http1_proxy() -> Self {
        Self { state: FramingState::Head, head: Vec::new(), is_proxy: true }
    }

    /// For HTTP/2, from its first byte.
    pub fn http2() -> Self {
        Self {
            state: FramingState::Frames(FrameFollower::new()),
            head: Vec::new(),
            is_proxy: false,
        }
    }

    /// Whether nothing is read until [`resume`](Self::resume).
    pub const fn is_held(&self) -> bool {
        matches!(self.state, FramingState::Upgrade)
    }

    /// Whether nothing is read any more except [`end`](Self::end).
    pub const fn is_broken(&self) -> bool {
        matches!(self.state, FramingState::Corrupted | FramingState::Broken)
    }

    /// What hyper reads on a connection that is broken: nothing. After a corrupted head, its end
    /// comes first, since hyper looks at no head that has none.
    pub fn end(&mut self, buf: &mut ReadBuf<'_>) {
        if matches!(self.state, FramingState::Corrupted) && buf.remaining() >= END.len() {
            buf.put_slice(END);
            self.state = FramingState::Broken;
        }
    }

    /// Whether part of a head has arrived.
    pub fn is_in_head(&self) -> bool {
        !self.head.is_empty() || self.unfinished().is_some()
    }

    /// Whether HTTP/1 is between two requests: all of the last one has arrived, and nothing of the next.
    pub const fn is_between_requests(&self) -> bool {
        matches!(self.state, FramingState::Head) && self.head.is_empty()
    }

    /// For HTTP/2, the last stream that a request has begun; zero for none.
    pub const fn last_stream(&self) -> u32 {
        match &self.state {
            FramingState::Frames(frames) => frames.last(),
            _ => 0,
        }
    }

    /// For HTTP/2, the number of a head that has arrived in part. Another head has another number.
    pub(crate) fn unfinished(&self) -> Option<u32> {
        match &self.state {
            FramingState::Frames(frames) => frames.unfinished(),
            _ => None,
        }
    }

    /// So much was sent to the client. Whoever is sent much over HTTP/2 acknowledges much.
    pub fn wrote(&mut self, bytes: usize) {
        if let FramingState::Frames(frames) = &mut self.state {
            frames.wrote(bytes);
        }
    }

    /// After an upgrade: whether the connection is something else from now on.
    pub fn resume(&mut self, is_switched: bool) {
        if self.is_held() {
            self.state = if is_switched { FramingState::Open } else { FramingState::Head };
        }
    }

    /// Follows what was read into `buf` after `start`, and takes out of it what is not to be handed
    /// on. The result is what is to be read again after [`resume`](Self::resume).
    pub fn follow(&mut self, buf: &mut ReadBuf<'_>, start: usize) -> Vec<u8> {
        let read = buf.filled().get(start..).unwrap_or_default();
        let verdict = self.inspect(read);
        let kept = read.get(verdict.pass..).filter(|_| self.is_held()).unwrap_or_default().to_vec();
        buf.set_filled(start.saturating_add(verdict.pass));
        if verdict.is_corrupted
            && let Some(last) = buf.filled_mut().last_mut()
        {
            *last = 0;
        }
        kept
    }

    fn inspect(&mut self, bytes: &[u8]) -> FramingVerdict {
        let mut at = 0_usize;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match &mut self.state {
                FramingState::Frames(frames) => {
                    frames.follow(rest);
                    if frames.is_flood() {
                        self.state = FramingState::Broken;
                        return FramingVerdict { pass: 0, is_corrupted: false };
                    }
                    at = bytes.len();
                }
                FramingState::Open => {
                    return FramingVerdict { pass: bytes.len(), is_corrupted: false };
                }
                FramingState::Upgrade | FramingState::Corrupted | FramingState::Broken => break,
                FramingState::Sized(left) => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= count as u64;
                    at += count;
                    if *left == 0 {
                        self.state = FramingState::Head;
                    }
                }
                FramingState::Chunked(chunks) => {
                    let (count, step) = chunks.follow(rest);
                    at += count;
                    match step {
                        ChunkStep::Within => {}
                        ChunkStep::End => self.state = FramingState::Head,
                        ChunkStep::Broken => self.state = FramingState::Broken,
                    }
                }
                FramingState::Head => {
                    let Some(count) = self.take_head(rest) else {
                        at = bytes.len();
                        break;
                    };
                    at += count;
                    if self.is_broken() {
                        return FramingVerdict { pass: at, is_corrupted: true };
                    }
                }
            }
        }
        FramingVerdict { pass: at, is_corrupted: false }
    }

    /// How many bytes end the head, if it ends here. What follows it is then clear.
    fn take_head(&mut self, bytes: &[u8]) -> Option<usize> {
        let before = self.head.len();
        if before == 0
            && let Some((head, end)) = Http1Head::read(bytes)
        {
            // Nearly every head arrives in one piece, and is not copied.
            self.state = self.state_after(&head);
            return Some(end);
        }
        if before > MAX_HEAD {
            // hyper has refused it by now.
            self.state = FramingState::Broken;
            return Some(bytes.len());
        }
        if self.head.capacity() - before < bytes.len() {
            // In small steps: whoever sends half a head should not get twice the room for it.
            self.head.reserve_exact(bytes.len().next_multiple_of(HEAD_STEP));
        }
        self.head.extend_from_slice(bytes);
        // Without another line it goes on, however slowly it arrives.
        memchr::memchr(b'\n', bytes)?;
        let (head, end) = Http1Head::read(&self.head)?;
        self.state = self.state_after(&head);
        self.head = Vec::new();
        Some(end.saturating_sub(before))
    }

    fn state_after(&self, head: &Http1Head<'_>) -> FramingState {
        match head.body_framing() {
            _ if self.is_proxy && head.lacks_host() => FramingState::Corrupted,
            RequestBodyFraming::Sized(0) => FramingState::Head,
            RequestBodyFraming::Sized(length) => FramingState::Sized(length),
            RequestBodyFraming::Chunks => FramingState::Chunked(ChunkFollower::default()),
            RequestBodyFraming::Upgrade if self.is_proxy => FramingState::Upgrade,
            RequestBodyFraming::Upgrade => FramingState::Head,
            RequestBodyFraming::Ambiguous => FramingState::Corrupted,
        }
    }
}

/// The frame that tells an HTTP/2 client to leave: nothing is wrong, and whatever it has asked for past
/// this stream it may ask somebody else.
pub(crate) const fn goaway(last_stream: u32) -> [u8; 17] {
    let [a, b, c, d] = last_stream.to_be_bytes();
    [0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, a, b, c, d, 0, 0, 0, 0]
}

const GOAWAY: u8 = 7;
const END: &[u8] = b"\r\n\r\n";
const HEAD_STEP: usize = 2 << 10;
/// More than any server accepts.
const MAX_HEAD: usize = 1 << 20;

#[cfg(test)]
mod tests;
