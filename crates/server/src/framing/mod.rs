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
mod glitches;
mod head;

use tokio::io::ReadBuf;

use self::chunks::{Chunks, Step};
use self::frames::Frames;
use self::head::{Behind, Head};

/// Follows the requests on one connection.
///
/// ```
/// use tidegate_server::framing::Framing;
/// use tokio::io::ReadBuf;
///
/// let mut read = *b"POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n";
/// let mut buf = ReadBuf::new(&mut read);
/// buf.set_filled(buf.capacity());
/// let mut framing = Framing::http1();
/// framing.follow(&mut buf, 0);
/// assert!(framing.is_broken());
/// ```
#[derive(Debug)]
pub struct Framing {
    state: State,
    /// What has arrived of a head.
    head: Vec<u8>,
    /// Whether requests are passed on to others.
    is_proxy: bool,
}

#[derive(Debug)]
enum State {
    Head,
    Sized(u64),
    Chunked(Chunks),
    /// A request that may change what the connection is. Nothing more is read until it is answered.
    Upgrade,
    /// For HTTP/2.
    Frames(Frames),
    /// No longer HTTP.
    Open,
    /// A head that was corrupted, and has no end yet.
    Spoilt,
    Broken,
}

/// What becomes of bytes that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict {
    /// This many are handed on. The others are kept, or lost if the connection is broken.
    pass: usize,
    /// Whether the last of them is corrupted.
    is_spoilt: bool,
}

impl Framing {
    /// For HTTP/1 that is answered here: a host may be missing, and no other protocol ever follows.
    pub const fn http1() -> Self {
        Self { state: State::Head, head: Vec::new(), is_proxy: false }
    }

    /// For HTTP/1 that is passed on.
    pub const fn http1_of_a_proxy() -> Self {
        Self { state: State::Head, head: Vec::new(), is_proxy: true }
    }

    /// For HTTP/2, from its first byte.
    pub fn http2() -> Self {
        Self { state: State::Frames(Frames::new()), head: Vec::new(), is_proxy: false }
    }

    /// Whether nothing is read until [`resume`](Self::resume).
    pub const fn is_held(&self) -> bool {
        matches!(self.state, State::Upgrade)
    }

    /// Whether nothing is read any more except [`end`](Self::end).
    pub const fn is_broken(&self) -> bool {
        matches!(self.state, State::Spoilt | State::Broken)
    }

    /// What hyper reads on a connection that is broken: nothing. After a corrupted head, its end
    /// comes first, since hyper looks at no head that has none.
    pub fn end(&mut self, buf: &mut ReadBuf<'_>) {
        if matches!(self.state, State::Spoilt) && buf.remaining() >= END.len() {
            buf.put_slice(END);
            self.state = State::Broken;
        }
    }

    /// Whether part of a head has arrived.
    pub fn is_in_head(&self) -> bool {
        !self.head.is_empty() || self.unfinished().is_some()
    }

    /// Whether HTTP/1 is between two requests: all of the last one has arrived, and nothing of the next.
    pub const fn is_between(&self) -> bool {
        matches!(self.state, State::Head) && self.head.is_empty()
    }

    /// For HTTP/2, the last stream that a request has begun; zero for none.
    pub const fn last_stream(&self) -> u32 {
        match &self.state {
            State::Frames(frames) => frames.last(),
            _ => 0,
        }
    }

    /// For HTTP/2, the number of a head that has arrived in part. Another head has another number.
    pub(crate) fn unfinished(&self) -> Option<u32> {
        match &self.state {
            State::Frames(frames) => frames.unfinished(),
            _ => None,
        }
    }

    /// So much was sent to the client. Whoever is sent much over HTTP/2 acknowledges much.
    pub fn wrote(&mut self, bytes: usize) {
        if let State::Frames(frames) = &mut self.state {
            frames.wrote(bytes);
        }
    }

    /// After an upgrade: whether the connection is something else from now on.
    pub fn resume(&mut self, is_switched: bool) {
        if self.is_held() {
            self.state = if is_switched { State::Open } else { State::Head };
        }
    }

    /// Follows what was read into `buf` after `start`, and takes out of it what is not to be handed
    /// on. The result is what is to be read again after [`resume`](Self::resume).
    pub fn follow(&mut self, buf: &mut ReadBuf<'_>, start: usize) -> Vec<u8> {
        let read = buf.filled().get(start..).unwrap_or_default();
        let verdict = self.judge(read);
        let kept = read.get(verdict.pass..).filter(|_| self.is_held()).unwrap_or_default().to_vec();
        buf.set_filled(start.saturating_add(verdict.pass));
        if verdict.is_spoilt
            && let Some(last) = buf.filled_mut().last_mut()
        {
            *last = 0;
        }
        kept
    }

    fn judge(&mut self, bytes: &[u8]) -> Verdict {
        let mut at = 0_usize;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match &mut self.state {
                State::Frames(frames) => {
                    frames.follow(rest);
                    if frames.is_flood() {
                        self.state = State::Broken;
                        return Verdict { pass: 0, is_spoilt: false };
                    }
                    at = bytes.len();
                }
                State::Open => return Verdict { pass: bytes.len(), is_spoilt: false },
                State::Upgrade | State::Spoilt | State::Broken => break,
                State::Sized(left) => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= count as u64;
                    at += count;
                    if *left == 0 {
                        self.state = State::Head;
                    }
                }
                State::Chunked(chunks) => {
                    let (count, step) = chunks.follow(rest);
                    at += count;
                    match step {
                        Step::Within => {}
                        Step::End => self.state = State::Head,
                        Step::Broken => self.state = State::Broken,
                    }
                }
                State::Head => {
                    let Some(count) = self.take_head(rest) else {
                        at = bytes.len();
                        break;
                    };
                    at += count;
                    if self.is_broken() {
                        return Verdict { pass: at, is_spoilt: true };
                    }
                }
            }
        }
        Verdict { pass: at, is_spoilt: false }
    }

    /// How many bytes end the head, if it ends here. What follows it is then clear.
    fn take_head(&mut self, bytes: &[u8]) -> Option<usize> {
        let before = self.head.len();
        if before == 0
            && let Some((head, end)) = Head::read(bytes)
        {
            // Nearly every head arrives in one piece, and is not copied.
            self.state = self.behind(&head);
            return Some(end);
        }
        if before > MAX_HEAD {
            // hyper has refused it by now.
            self.state = State::Broken;
            return Some(bytes.len());
        }
        if self.head.capacity() - before < bytes.len() {
            // In small steps: whoever sends half a head should not get twice the room for it.
            self.head.reserve_exact(bytes.len().next_multiple_of(HEAD_STEP));
        }
        self.head.extend_from_slice(bytes);
        // Without another line it goes on, however slowly it arrives.
        memchr::memchr(b'\n', bytes)?;
        let (head, end) = Head::read(&self.head)?;
        self.state = self.behind(&head);
        self.head = Vec::new();
        Some(end.saturating_sub(before))
    }

    fn behind(&self, head: &Head<'_>) -> State {
        match head.behind() {
            _ if self.is_proxy && head.lacks_host() => State::Spoilt,
            Behind::Sized(0) => State::Head,
            Behind::Sized(length) => State::Sized(length),
            Behind::Chunks => State::Chunked(Chunks::default()),
            Behind::Upgrade if self.is_proxy => State::Upgrade,
            Behind::Upgrade => State::Head,
            Behind::Unclear => State::Spoilt,
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
mod tests {
    use super::*;

    /// How many of some bytes are handed on, read in portions, and whether the last one is
    /// corrupted.
    fn passed(text: &str, portion: usize) -> (usize, bool) {
        let (mut framing, mut passed) = (Framing::http1_of_a_proxy(), 0);
        for bytes in text.as_bytes().chunks(portion) {
            let verdict = framing.judge(bytes);
            passed += verdict.pass;
            if verdict.is_spoilt || verdict.pass < bytes.len() {
                return (passed, verdict.is_spoilt);
            }
        }
        (passed, false)
    }

    #[test]
    fn requests_follow_each_other_in_any_portions() {
        let text = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
                    POST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: Chunked\r\n\r\n\
                    5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n\
                    \r\nGET /c HTTP/1.1\r\nhost: a\r\n\r\n\
                    GET /d HTTP/1.0\r\n\r\n";
        for portion in 1..=text.len() {
            assert_eq!(passed(text, portion), (text.len(), false), "{portion}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_spoilt_at_the_end_of_its_head() {
        let first = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        for fields in [
            "host: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked",
            "host: a\r\ntransfer-encoding: chunked\r\ncontent-length: 5",
            "host: a\r\ncontent-length: 5\r\ncontent-length: 5",
            "host: a\r\ntransfer-encoding: gzip, chunked",
            "host: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "host: a\r\ncontent-length: +5",
            "host: a\r\ncontent-length: 0x5",
            "host: a\r\ncontent-length:",
            "host: a\r\nhost: b",
            "accept: *",
            "host: a\nx: y",
        ] {
            let head = format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
            let text = format!("{first}{head}GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n");
            for portion in 1..=text.len() {
                let expected = (first.len() + head.len(), true);
                assert_eq!(passed(&text, portion), expected, "{fields} {portion}");
            }
        }
    }

    #[test]
    fn a_server_needs_no_host_and_never_switches() {
        let text = "GET / HTTP/1.1\r\nupgrade: h2c\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        let verdict = Framing::http1().judge(text.as_bytes());
        assert_eq!(verdict, Verdict { pass: text.len(), is_spoilt: false });
    }

    #[test]
    fn nothing_is_handed_on_behind_a_broken_chunk() {
        let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        for chunks in ["5\nhello\r\n", "5;a\nhello\r\n", "x\r\n", "5\r\nhelloX", "0\r\nx: y\n\r\n"]
        {
            let text = format!("{head}{chunks}GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n");
            let (passed, is_spoilt) = passed(&text, text.len());
            assert!(passed <= head.len() + chunks.len() && !is_spoilt, "{chunks:?}");
        }
    }

    /// What hyper reads after it has read all that was handed on.
    fn end(framing: &mut Framing, room: usize) -> Vec<u8> {
        let mut bytes = vec![0; room];
        let mut buf = ReadBuf::new(&mut bytes);
        framing.end(&mut buf);
        buf.filled().to_vec()
    }

    #[test]
    fn a_spoilt_head_has_an_end_once_there_is_room_for_it() {
        let mut framing = Framing::http1_of_a_proxy();
        assert_eq!(end(&mut framing, 8), b"");
        framing.judge(b"GET / HTTP/1.1\r\n\r\n");
        assert!(framing.is_broken());
        assert_eq!(end(&mut framing, 3), b"");
        assert_eq!(end(&mut framing, 4), b"\r\n\r\n");
        assert!(framing.is_broken());
        assert_eq!(end(&mut framing, 8), b"", "only once");
    }

    #[test]
    fn a_head_in_part_is_known_as_such() {
        let mut framing = Framing::http1();
        let is = |framing: &Framing| (framing.is_in_head(), framing.is_between());
        assert_eq!(is(&framing), (false, true));
        framing.judge(b"POST / HTTP/1.1\r\ncontent-length: 2\r\n");
        assert_eq!(is(&framing), (true, false));
        framing.judge(b"\r\na");
        assert_eq!(is(&framing), (false, false), "within a body");
        framing.judge(b"b");
        assert_eq!(is(&framing), (false, true));
        assert_eq!((framing.last_stream(), framing.unfinished()), (0, None));
    }

    #[test]
    fn a_head_in_part_of_http2_is_known_as_such() {
        let mut framing = Framing::http2();
        assert!(framing.is_in_head() && !framing.is_between());
        framing.judge(&[0; 24]);
        assert_eq!((framing.is_in_head(), framing.last_stream()), (false, 0));
        // Three bytes of the head of a request, which goes on, on the fifth stream.
        framing.judge(&[0, 0, 3, 1, 0, 0, 0, 0, 5, 0, 0, 0]);
        assert_eq!((framing.is_in_head(), framing.last_stream()), (true, 5));
        let first = framing.unfinished();
        assert!(first.is_some());
        framing.judge(&[0, 0, 0, 9, 4, 0, 0, 0, 5]);
        assert_eq!((framing.is_in_head(), framing.unfinished()), (false, None));
        framing.judge(&[0, 0, 3, 1, 0, 0, 0, 0, 3]);
        assert_eq!(framing.last_stream(), 5, "the last is the highest");
        assert!(framing.unfinished().is_some() && framing.unfinished() != first);
    }

    #[test]
    fn what_follows_an_upgrade_is_kept_and_nothing_else_is() {
        let head = b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: x\r\n\r\n";
        let mut bytes = [b"before", &head[..], b"after"].concat();
        let mut buf = ReadBuf::new(&mut bytes);
        buf.set_filled(buf.capacity());
        let mut framing = Framing::http1_of_a_proxy();
        assert_eq!(framing.follow(&mut buf, 6), b"after");
        assert_eq!(buf.filled(), [b"before", &head[..]].concat());
        let mut bytes = b"GET / HTTP/1.1\r\n\r\nmore".to_vec();
        let mut buf = ReadBuf::new(&mut bytes);
        buf.set_filled(buf.capacity());
        let mut framing = Framing::http1_of_a_proxy();
        assert_eq!(framing.follow(&mut buf, 0), b"", "what is lost is not read again");
        assert_eq!(buf.filled(), b"GET / HTTP/1.1\r\n\r\0");
        assert_eq!(framing.judge(b"more").pass, 0);
    }

    #[test]
    fn a_chunk_is_as_long_as_its_digits_say() {
        let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        let data = "0".repeat(0x1a);
        let text = format!("{head}01a\r\n{data}\r\n1A\r\n{data}\r\n00\r\n\r\n");
        let mut framing = Framing::http1();
        for (at, byte) in text.bytes().enumerate() {
            assert_eq!(framing.judge(&[byte]).pass, 1, "{at}");
            assert_eq!(framing.is_between(), at + 1 == text.len(), "{at}");
        }
        let mut framing = Framing::http1();
        framing.judge(format!("{head}ffffffffffffffff\r\n").as_bytes());
        assert!(!framing.is_broken());
        framing.judge(b"x");
        assert!(!framing.is_between());
        let mut framing = Framing::http1();
        framing.judge(format!("{head}10000000000000000\r\n").as_bytes());
        assert!(framing.is_broken());
    }

    #[test]
    fn an_older_version_has_no_chunks() {
        for (version, is_broken) in [("1.1", false), ("1.0", true)] {
            let head = format!("POST / HTTP/{version}\r\ntransfer-encoding: chunked\r\n\r\n");
            let mut framing = Framing::http1();
            framing.judge(head.as_bytes());
            assert_eq!(framing.is_broken(), is_broken, "{version}");
        }
    }

    #[test]
    fn a_goaway_names_the_last_stream_and_no_error() {
        let frame = goaway(0x0102_0304);
        assert_eq!(frame, [0, 0, 8, 7, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0]);
    }

    #[test]
    fn a_head_without_end_is_given_up() {
        let mut framing = Framing::http1();
        let line = [b'x'; 1 << 16];
        for _ in 0..=16 {
            framing.judge(&line);
            assert!(!framing.is_broken());
        }
        framing.judge(&line);
        assert!(framing.is_broken());
    }

    #[test]
    fn an_upgrade_is_waited_for() {
        let head = "GET /ws HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\n\r\n";
        let mut framing = Framing::http1_of_a_proxy();
        let verdict = framing.judge(format!("{head}\x01\x02").as_bytes());
        assert_eq!(verdict, Verdict { pass: head.len(), is_spoilt: false });
        assert!(framing.is_held());
        framing.resume(true);
        assert_eq!(framing.judge(b"\n\n\x00\n\n").pass, 5);
        let mut framing = Framing::http1_of_a_proxy();
        framing.judge(head.as_bytes());
        framing.resume(false);
        assert_eq!(framing.judge(head.as_bytes()).pass, head.len());
        assert!(framing.is_held());
    }
}
