//! Writes replies as bytes, in the protocol version that the client has chosen.

use super::fast_path::decimal;

/// The version of the protocol that a client uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RespProtocol {
    /// The version that every client understands.
    #[default]
    Resp2,
    /// The version with maps and a proper null, after `HELLO 3`.
    Resp3,
}

impl RespProtocol {
    /// The version's number.
    pub(super) const fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Replies that wait to be written to the client.
#[derive(Debug, Default)]
pub(super) struct RespReplies {
    /// The replies in the first `length` bytes, and initialised space for more.
    room: Vec<u8>,
    length: usize,
    protocol: RespProtocol,
}

impl RespReplies {
    /// Uses this protocol from now on.
    pub(super) const fn set_protocol(&mut self, protocol: RespProtocol) {
        self.protocol = protocol;
    }

    pub(super) const fn protocol(&self) -> RespProtocol {
        self.protocol
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.room.get(..self.length).unwrap_or_default()
    }

    /// Removes the replies after they are written. Memory that a large pipeline needed is freed once
    /// smaller ones follow.
    pub(super) fn clear(&mut self) {
        let used = std::mem::take(&mut self.length);
        if used < self.room.len() / 4 {
            self.room.truncate(KEPT.max(used));
            self.room.shrink_to_fit();
        }
    }

    /// `+OK`. Only for our own texts, which contain no line breaks.
    pub(super) fn status(&mut self, word: &str) {
        self.line(b'+', word.as_bytes());
    }

    /// `-ERR ...`. Replaces control characters, so that a client's text cannot begin another reply.
    #[cold]
    pub(super) fn error(&mut self, text: &str) {
        let start = self.length;
        self.line(b'-', text.as_bytes());
        let end = self.length - END.len();
        for byte in self.room.get_mut(start..end).unwrap_or_default() {
            if byte.is_ascii_control() {
                *byte = b' ';
            }
        }
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.integers([number]);
    }

    /// Several integers, which make up most replies.
    #[inline]
    pub(super) fn integers<const COUNT: usize>(&mut self, numbers: [i64; COUNT]) {
        let room = self.spare(COUNT * decimal::ROOM);
        let length = numbers.iter().fold(0, |length, number| {
            length + decimal::write_line(room.get_mut(length..).unwrap_or_default(), b':', *number)
        });
        self.length += length;
    }

    /// A count, as an integer.
    pub(super) fn count(&mut self, number: u64) {
        self.integer(whole(number));
    }

    /// A string of any bytes.
    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        let room = self.spare(decimal::ROOM + bytes.len() + END.len());
        let start = decimal::write_line(room, b'$', whole(bytes.len() as u64));
        let length = start + bytes.len() + END.len();
        if let Some((text, end)) =
            room.get_mut(start..length).and_then(|room| room.split_at_mut_checked(bytes.len()))
        {
            text.copy_from_slice(bytes);
            end.copy_from_slice(END);
        }
        self.length += length;
    }

    /// Text of several lines for people to read.
    pub(super) fn text(&mut self, text: &str) {
        match self.protocol {
            RespProtocol::Resp2 => self.bulk(text.as_bytes()),
            RespProtocol::Resp3 => {
                self.header(b'=', text.len() + 4);
                self.put(b"txt:");
                self.put(text.as_bytes());
                self.put(END);
            }
        }
    }

    /// A null.
    pub(super) fn null(&mut self) {
        self.put(match self.protocol {
            RespProtocol::Resp2 => b"$-1\r\n",
            RespProtocol::Resp3 => b"_\r\n",
        });
    }

    /// The head of a list; write its items next.
    pub(super) fn list(&mut self, items: usize) {
        self.header(b'*', items);
    }

    /// The head of a map; write its names and values next, in turn. RESP2 has no maps and gets a list.
    pub(super) fn map(&mut self, pairs: usize) {
        match self.protocol {
            RespProtocol::Resp2 => self.header(b'*', pairs * 2),
            RespProtocol::Resp3 => self.header(b'%', pairs),
        }
    }

    #[inline]
    fn header(&mut self, kind: u8, length: usize) {
        let room = self.spare(decimal::ROOM);
        self.length += decimal::write_line(room, kind, whole(length as u64));
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.put(&[kind]);
        self.put(text);
        self.put(END);
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.spare(bytes.len()).get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.length += bytes.len();
    }

    /// Space for at least this many more bytes.
    #[inline]
    fn spare(&mut self, bytes: usize) -> &mut [u8] {
        if self.room.len() - self.length < bytes {
            self.grow(bytes);
        }
        self.room.get_mut(self.length..).unwrap_or_default()
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        let needed = self.length + bytes;
        self.room.resize(needed.max(self.room.len() * 2).max(LEAST), 0);
    }
}

/// A count as an integer of the protocol, capped at its maximum.
pub(super) const fn whole(count: u64) -> i64 {
    if count > i64::MAX as u64 { i64::MAX } else { count as i64 }
}

/// The beginning of a client's bytes, long enough to recognise them, in quotes and on one line.
pub(super) fn brief(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..BRIEF).unwrap_or(bytes));
    let more = if bytes.len() > BRIEF { "..." } else { "" };
    format!("\"{}{more}\"", text.escape_debug())
}

const BRIEF: usize = 64;
const END: &[u8] = b"\r\n";
/// The initial size of the buffer: enough for the replies of most clients.
const LEAST: usize = 512;
/// The most that is kept of a buffer that turns out too large.
const KEPT: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: RespProtocol, write: impl FnOnce(&mut RespReplies)) -> String {
        let mut replies = RespReplies::default();
        replies.set_protocol(protocol);
        write(&mut replies);
        String::from_utf8_lossy(replies.bytes()).into_owned()
    }

    #[test]
    fn each_protocol_has_its_own_maps_and_nulls() {
        let write = |replies: &mut RespReplies| {
            replies.map(1);
            replies.bulk(b"a");
            replies.null();
            replies.text("hi");
        };
        assert_eq!(written(RespProtocol::Resp2, write), "*2\r\n$1\r\na\r\n$-1\r\n$2\r\nhi\r\n");
        assert_eq!(written(RespProtocol::Resp3, write), "%1\r\n$1\r\na\r\n_\r\n=6\r\ntxt:hi\r\n");
    }

    #[test]
    fn numbers_are_written_whole() {
        for number in [0, -1, 9, 10, i64::MAX, i64::MIN] {
            let text = written(RespProtocol::Resp2, |replies| replies.integer(number));
            assert_eq!(text, format!(":{number}\r\n"));
        }
        assert_eq!(
            written(RespProtocol::Resp2, |replies| replies.count(u64::MAX)),
            format!(":{}\r\n", i64::MAX)
        );
        assert_eq!(written(RespProtocol::Resp2, |replies| replies.list(12)), "*12\r\n");
    }

    #[test]
    fn nothing_in_an_error_begins_another_reply() {
        let text = written(RespProtocol::Resp2, |replies| replies.error("ERR a\r\n+OK\r\n"));
        assert_eq!(text, "-ERR a  +OK  \r\n");
        assert_eq!(brief(b"a\r\n\xff\""), "\"a\\r\\n\u{fffd}\\\"\"");
        assert!(brief(&[b'x'; 100_000]).len() < 100);
    }

    #[test]
    fn a_large_answer_is_not_kept_in_memory() {
        let mut replies = RespReplies::default();
        replies.bulk(&[0; 100_000]);
        replies.clear();
        replies.status("OK");
        replies.clear();
        assert!(replies.room.capacity() <= KEPT);
    }
}
