//! Answers become bytes, in the protocol that the client has chosen.

/// Which of the two protocols a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    /// What every client understands.
    #[default]
    Resp2,
    /// With maps and a proper null, after `HELLO 3`.
    Resp3,
}

impl Protocol {
    /// Its number.
    pub(super) const fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Answers that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Replies {
    bytes: Vec<u8>,
    protocol: Protocol,
}

impl Replies {
    /// Uses this protocol from now on.
    pub(super) const fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    pub(super) const fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// They have been written. What one large pipeline needed is not kept for small ones.
    pub(super) fn clear(&mut self) {
        let used = self.bytes.len();
        self.bytes.clear();
        if used < self.bytes.capacity() / 4 {
            self.bytes.shrink_to(KEPT.max(used));
        }
    }

    /// `+OK`. For our own words, which contain no line breaks.
    pub(super) fn status(&mut self, word: &str) {
        self.line(b'+', word.as_bytes());
    }

    /// `-ERR ...`. Whatever a client has smuggled into the text stays on its line.
    #[cold]
    pub(super) fn error(&mut self, text: &str) {
        let start = self.bytes.len();
        self.line(b'-', text.as_bytes());
        let end = self.bytes.len() - 2;
        for byte in self.bytes.get_mut(start..end).unwrap_or_default() {
            if byte.is_ascii_control() {
                *byte = b' ';
            }
        }
    }

    #[inline]
    pub(super) fn integer(&mut self, number: i64) {
        // What most answers are made of.
        match number {
            0..=9 => self.bytes.extend_from_slice(&[b':', b'0' + number as u8, b'\r', b'\n']),
            -1 => self.bytes.extend_from_slice(b":-1\r\n"),
            _ => {
                self.bytes.push(b':');
                self.digits(number);
            }
        }
    }

    /// A count. None of ours exceeds what an integer of the protocol holds.
    pub(super) fn count(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// A string of any bytes.
    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(END);
    }

    /// Text of several lines, for people.
    pub(super) fn text(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.header(b'=', text.len() + 4);
                self.bytes.extend_from_slice(b"txt:");
                self.bytes.extend_from_slice(text.as_bytes());
                self.bytes.extend_from_slice(END);
            }
        }
    }

    /// Nothing.
    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// A list; its items come next.
    pub(super) fn list(&mut self, items: usize) {
        self.header(b'*', items);
    }

    /// Names and values, which come next in turn. A client that does not know maps gets a list.
    pub(super) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', pairs * 2),
            Protocol::Resp3 => self.header(b'%', pairs),
        }
    }

    fn header(&mut self, kind: u8, length: usize) {
        self.bytes.push(kind);
        // The lengths of most lists here, and of all that matter for speed.
        match u8::try_from(length) {
            Ok(digit @ 0..=9) => self.bytes.extend_from_slice(&[b'0' + digit, b'\r', b'\n']),
            _ => self.digits(i64::try_from(length).unwrap_or(i64::MAX)),
        }
    }

    fn digits(&mut self, number: i64) {
        self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.bytes.extend_from_slice(END);
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(END);
    }
}

/// Enough of a client's bytes to recognise them by, in quotes and on one line.
pub(super) fn brief(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..BRIEF).unwrap_or(bytes));
    let more = if bytes.len() > BRIEF { "..." } else { "" };
    format!("\"{}{more}\"", text.escape_debug())
}

const BRIEF: usize = 64;
const END: &[u8] = b"\r\n";
/// What an idle connection may keep.
const KEPT: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl FnOnce(&mut Replies)) -> String {
        let mut replies = Replies::default();
        replies.speak(protocol);
        write(&mut replies);
        String::from_utf8_lossy(replies.bytes()).into_owned()
    }

    #[test]
    fn each_protocol_has_its_own_maps_and_nulls() {
        let write = |replies: &mut Replies| {
            replies.map(1);
            replies.bulk(b"a");
            replies.null();
            replies.text("hi");
        };
        assert_eq!(written(Protocol::Resp2, write), "*2\r\n$1\r\na\r\n$-1\r\n$2\r\nhi\r\n");
        assert_eq!(written(Protocol::Resp3, write), "%1\r\n$1\r\na\r\n_\r\n=6\r\ntxt:hi\r\n");
    }

    #[test]
    fn numbers_are_written_whole() {
        for number in [0, -1, 9, 10, i64::MAX, i64::MIN] {
            let text = written(Protocol::Resp2, |replies| replies.integer(number));
            assert_eq!(text, format!(":{number}\r\n"));
        }
        assert_eq!(written(Protocol::Resp2, |it| it.count(u64::MAX)), format!(":{}\r\n", i64::MAX));
        assert_eq!(written(Protocol::Resp2, |it| it.list(12)), "*12\r\n");
    }

    #[test]
    fn nothing_in_an_error_begins_another_reply() {
        let text = written(Protocol::Resp2, |replies| replies.error("ERR a\r\n+OK\r\n"));
        assert_eq!(text, "-ERR a  +OK  \r\n");
        assert_eq!(brief(b"a\r\n\xff\""), "\"a\\r\\n\u{fffd}\\\"\"");
        assert!(brief(&[b'x'; 100_000]).len() < 100);
    }

    #[test]
    fn a_large_answer_is_not_kept_in_memory() {
        let mut replies = Replies::default();
        replies.bulk(&[0; 100_000]);
        replies.clear();
        replies.status("OK");
        replies.clear();
        assert!(replies.bytes.capacity() <= KEPT);
    }
}
