//! Where requests begin and end on a connection, told by the strictest reading.
//!
//! hyper reads HTTP/1 as RFC 9112 allows a server to: of a length and chunks it believes the chunks,
//! and of two equal lengths one. That is safe for whoever reads the connection alone. A proxy shares
//! it with others, who may read it in another way. So this follows along, byte by byte, and what
//! could be read in two ways is spoilt before hyper sees it, which then answers 400 and closes.

use super::chunks::{Chunks, Step};

/// Follows the requests of one connection.
#[derive(Debug)]
pub(super) struct Framing {
    state: State,
    /// What has come of a head.
    head: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Head,
    Sized(u64),
    Chunked(Chunks),
    /// A request that may change what the connection is. Nothing more is read until it is answered.
    Upgrade,
    /// No HTTP/1 any more.
    Open,
    Broken,
}

/// What becomes of bytes that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// So many are handed on. The others are kept, or lost if the connection is broken.
    pub(super) pass: usize,
    /// The last of them is spoilt.
    pub(super) is_spoilt: bool,
}

impl Framing {
    pub(super) const fn http1() -> Self {
        Self { state: State::Head, head: Vec::new() }
    }

    pub(super) const fn open() -> Self {
        Self { state: State::Open, head: Vec::new() }
    }

    /// Whether nothing is read until [`resume`](Self::resume).
    pub(super) fn is_held(&self) -> bool {
        self.state == State::Upgrade
    }

    pub(super) fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    /// Whether some of a head has come.
    pub(super) const fn is_in_head(&self) -> bool {
        !self.head.is_empty()
    }

    /// After an upgrade: whether the connection is something else from now on.
    pub(super) fn resume(&mut self, is_switched: bool) {
        if self.is_held() {
            self.state = if is_switched { State::Open } else { State::Head };
        }
    }

    /// Follows bytes that were read.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> Verdict {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match &mut self.state {
                State::Open => return Verdict { pass: bytes.len(), is_spoilt: false },
                State::Upgrade | State::Broken => break,
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

    /// How many bytes end the head, if it ends here. What then follows is clear.
    fn take_head(&mut self, bytes: &[u8]) -> Option<usize> {
        let before = self.head.len();
        if before == 0
            && let Some(end) = end_of_head(bytes)
        {
            // Nearly every head comes in one piece, and is not copied.
            self.state = after_head(bytes.get(..end).unwrap_or_default());
            return Some(end);
        }
        if before > MAX_HEAD {
            // hyper has refused it by now.
            self.state = State::Broken;
            return Some(bytes.len());
        }
        self.head.extend_from_slice(bytes);
        let end = end_of_head(&self.head)?;
        self.head.truncate(end);
        self.state = after_head(&self.head);
        self.head = Vec::new();
        Some(end.saturating_sub(before))
    }
}

/// Behind the first empty line; those before the first line that says something do not count.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let (mut start, mut has_begun) = (0, false);
    while let Some(length) = bytes.get(start..)?.iter().position(|byte| *byte == b'\n') {
        let line = bytes.get(start..start + length)?;
        start += length + 1;
        match line {
            b"" | b"\r" if has_begun => return Some(start),
            b"" | b"\r" => {}
            _ => has_begun = true,
        }
    }
    None
}

/// What follows a head, or that it could be read in two ways.
fn after_head(head: &[u8]) -> State {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let is_whole = matches!(request.parse(head), Ok(httparse::Status::Complete(_)));
    // A line that ends without a carriage return is the end of a line to some, and not to others.
    if !is_whole || has_bare_newline(head) {
        return State::Broken;
    }
    let count = |name: &str| {
        request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name)).count()
    };
    let value = |name: &str| {
        let field = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.map(|field| field.value)
    };
    let is_1_1 = request.version == Some(1);
    let (lengths, codings) = (count("content-length"), count("transfer-encoding"));
    if lengths > 1 || codings > 1 || lengths + codings > 1 || count("host") > 1 {
        return State::Broken;
    }
    // HTTP/1.0 has no chunks, and HTTP/1.1 no request without a host.
    if (codings > 0 && !is_1_1) || (is_1_1 && value("host").is_none()) {
        return State::Broken;
    }
    match (value("transfer-encoding"), value("content-length").map(crate::upstream::digits)) {
        (Some(coding), _) if coding.eq_ignore_ascii_case(b"chunked") => {
            State::Chunked(Chunks::default())
        }
        (Some(_), _) | (None, Some(None)) => State::Broken,
        (None, Some(Some(length))) if length > 0 => State::Sized(length),
        (None, _) if is_1_1 && value("upgrade").is_some() => State::Upgrade,
        (None, _) => State::Head,
    }
}

fn has_bare_newline(head: &[u8]) -> bool {
    let mut before = 0;
    head.iter().any(|byte| {
        let is_bare = *byte == b'\n' && before != b'\r';
        before = *byte;
        is_bare
    })
}

const MAX_FIELDS: usize = 100;
const MAX_HEAD: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// What of some bytes is handed on, read in portions, and whether the last byte is spoilt.
    fn passed(text: &str, portion: usize) -> (usize, bool) {
        let (mut framing, mut passed) = (Framing::http1(), 0);
        for bytes in text.as_bytes().chunks(portion) {
            let verdict = framing.follow(bytes);
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
    fn nothing_is_handed_on_behind_a_broken_chunk() {
        let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        for chunks in ["5\nhello\r\n", "x\r\n", "5\r\nhelloX", "0\r\nx: y\n\r\n"] {
            let text = format!("{head}{chunks}GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n");
            let (passed, is_spoilt) = passed(&text, text.len());
            assert!(passed <= head.len() + chunks.len() && !is_spoilt, "{chunks:?}");
        }
    }

    #[test]
    fn an_upgrade_is_waited_for() {
        let head = "GET /ws HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\n\r\n";
        let mut framing = Framing::http1();
        let verdict = framing.follow(format!("{head}\x01\x02").as_bytes());
        assert_eq!(verdict, Verdict { pass: head.len(), is_spoilt: false });
        assert!(framing.is_held());
        framing.resume(true);
        assert_eq!(framing.follow(b"\n\n\x00\n\n").pass, 5);
        let mut framing = Framing::http1();
        framing.follow(head.as_bytes());
        framing.resume(false);
        assert_eq!(framing.follow(head.as_bytes()).pass, head.len());
        assert!(framing.is_held());
    }
}
