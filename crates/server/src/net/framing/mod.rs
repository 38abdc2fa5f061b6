//! Determines where requests begin and end on a connection, by the strictest reading, to prevent request
//! smuggling.
//!
//! hyper reads HTTP/1 as RFC 9112 allows a server to: given both a length and chunks it uses the
//! chunks, and given two equal lengths it uses one. That is safe for a server that is the only reader of
//! the connection. But there may be a proxy in front of us, or we may be one, and another program may
//! read the same bytes differently. So this module follows along, byte by byte, and corrupts any
//! ambiguous head before hyper sees it. hyper then answers 400 and closes the connection.
//!
//! HTTP/2 is unambiguous. There this module detects incomplete heads, and ends a connection that is
//! flooded with frames that carry neither requests nor bodies.

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
    /// The head as far as it has arrived.
    head: Vec<u8>,
    /// Whether requests are forwarded to other servers.
    is_proxy: bool,
}

#[derive(Debug)]
enum FramingState {
    Head,
    Sized(u64),
    Chunked(ChunkFollower),
    /// A request that may switch the protocol. Nothing more is read until it is answered.
    Upgrade,
    /// HTTP/2.
    Frames(FrameFollower),
    /// Another protocol after an upgrade.
    Open,
    /// A head was corrupted, and its end has not been passed on yet.
    Corrupted,
    Broken,
}

/// What to do with bytes that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FramingVerdict {
    /// How many bytes are passed on. The others are kept, or lost if the connection is broken.
    pass: usize,
    /// Whether the last byte that is passed on must be corrupted.
    is_corrupted: bool,
}

impl InboundFraming {
    /// For HTTP/1 that is answered here: a host can be missing, and an upgrade never happens.
    pub const fn http1() -> Self {
        Self { state: FramingState::Head, head: Vec::new(), is_proxy: false }
    }

    /// For HTTP/1 that is forwarded to other servers.
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

    /// Whether nothing must be read until [`resume`](Self::resume).
    pub const fn is_held(&self) -> bool {
        matches!(self.state, FramingState::Upgrade)
    }

    /// Whether nothing must be read any more, except [`end`](Self::end).
    pub const fn is_broken(&self) -> bool {
        matches!(self.state, FramingState::Corrupted | FramingState::Broken)
    }

    /// Writes what hyper reads at the end of a broken connection: the end of a corrupted head, without
    /// which hyper would not parse and refuse it; otherwise nothing.
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

    /// Whether HTTP/1 is between two requests: the last one has arrived completely, and the next has not
    /// begun.
    pub const fn is_between_requests(&self) -> bool {
        matches!(self.state, FramingState::Head) && self.head.is_empty()
    }

    /// For HTTP/2, the highest stream on which a request has begun; zero for none.
    pub const fn last_stream(&self) -> u32 {
        match &self.state {
            FramingState::Frames(frames) => frames.last(),
            _ => 0,
        }
    }

    /// For HTTP/2, the number of an incomplete head. Another head has another number.
    pub(crate) fn unfinished(&self) -> Option<u32> {
        match &self.state {
            FramingState::Frames(frames) => frames.unfinished(),
            _ => None,
        }
    }

    /// Records how much was sent to the client, which an HTTP/2 client has to acknowledge.
    pub fn wrote(&mut self, bytes: usize) {
        if let FramingState::Frames(frames) = &mut self.state {
            frames.wrote(bytes);
        }
    }

    /// Continues after an upgrade request was answered. `is_switched` means that the protocol has changed.
    pub fn resume(&mut self, is_switched: bool) {
        if self.is_held() {
            self.state = if is_switched { FramingState::Open } else { FramingState::Head };
        }
    }

    /// Follows the bytes that were read into `buf` after `start`, and removes those that must not be passed
    /// on. Returns the bytes to read again after [`resume`](Self::resume).
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

    /// Reads a head, and sets the state after it. Returns how many of the bytes belong to the head; `None`
    /// if it is incomplete.
    fn take_head(&mut self, bytes: &[u8]) -> Option<usize> {
        let before = self.head.len();
        if before == 0
            && let Some((head, end)) = Http1Head::read(bytes)
        {
            // Nearly every head arrives in one piece, and needs no copy.
            self.state = self.state_after(&head);
            return Some(end);
        }
        if before > MAX_HEAD {
            // hyper has refused it by now.
            self.state = FramingState::Broken;
            return Some(bytes.len());
        }
        if self.head.capacity() - before < bytes.len() {
            // In small steps: an incomplete head must not occupy twice its size.
            self.head.reserve_exact(bytes.len().next_multiple_of(HEAD_STEP));
        }
        self.head.extend_from_slice(bytes);
        // Without a newline the head cannot end here: avoids parsing it again for every byte.
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

/// The GOAWAY frame of a graceful shutdown: the client can retry requests after `last_stream` elsewhere.
pub(crate) const fn goaway(last_stream: u32) -> [u8; 17] {
    let [a, b, c, d] = last_stream.to_be_bytes();
    [0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, a, b, c, d, 0, 0, 0, 0]
}

const GOAWAY: u8 = 7;
const END: &[u8] = b"\r\n\r\n";
/// The step in which the buffer of a head grows.
const HEAD_STEP: usize = 2 << 10;
/// More than any server accepts.
const MAX_HEAD: usize = 1 << 20;

#[cfg(test)]
mod tests;
