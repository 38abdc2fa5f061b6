//! Bytes become commands: lists of words that still lie in the buffer they were read into.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

use super::inline;

/// The name of a command and its arguments.
pub(super) type RespWords<'b> = SmallVec<[&'b [u8]; 8]>;

/// A command.
#[derive(Debug)]
pub(super) enum RespCommand<'b> {
    /// Its words lie in the buffer.
    Plain(RespWords<'b>),
    /// Its words were escaped, as people may type them.
    Escaped(Vec<Vec<u8>>),
}

impl RespCommand<'_> {
    /// The name and the arguments. Never empty once it was found.
    pub(super) fn words(&self) -> Cow<'_, [&[u8]]> {
        match self {
            Self::Plain(words) => Cow::Borrowed(words),
            Self::Escaped(words) => Cow::Owned(words.iter().map(Vec::as_slice).collect()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Plain(words) => words.len(),
            Self::Escaped(words) => words.len(),
        }
    }
}

/// How large a command may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct RespCommandBounds {
    /// Words of a command.
    pub(super) words: usize,
    /// Bytes of all its words.
    pub(super) bytes: usize,
    /// Bytes of a command that is a line.
    pub(super) line: usize,
}

/// Finds commands, one after the other.
///
/// It keeps nothing of an incomplete command: its beginning is read again when more has arrived.
/// That is cheap, since words are skipped by their length.
#[derive(Debug)]
pub(super) struct RespDecoder<'b> {
    input: &'b [u8],
    /// Where the last command begins.
    last: usize,
    taken: usize,
    bounds: RespCommandBounds,
}

impl<'b> RespDecoder<'b> {
    pub(super) const fn new(input: &'b [u8], bounds: RespCommandBounds) -> Self {
        Self { input, last: 0, taken: 0, bounds }
    }

    /// How many bytes belong to commands that were found.
    pub(super) const fn taken(&self) -> usize {
        self.taken
    }

    /// The bytes of the command that was found last.
    pub(super) fn last(&self) -> &'b [u8] {
        self.input.get(self.last..self.taken).unwrap_or_default()
    }

    /// What has not been consumed yet.
    pub(super) fn rest(&self) -> &'b [u8] {
        self.input.get(self.taken..).unwrap_or_default()
    }

    /// Skips a command of this many bytes that was found elsewhere.
    pub(super) fn skip(&mut self, length: usize) {
        self.taken += length;
    }

    /// The next command; `None` if the rest is not a whole one.
    pub(super) fn next(&mut self) -> Result<Option<RespCommand<'b>>, RespProtocolError> {
        loop {
            let rest = self.rest();
            let found = match rest.first() {
                None => return Ok(None),
                Some(b'*') => list(rest, self.bounds)?,
                Some(_) => line(rest, self.bounds)?,
            };
            let Some((command, length)) = found else { return Ok(None) };
            self.last = self.taken;
            self.taken += length;
            // An empty list and an empty line say nothing, and are not answered.
            if command.len() > 0 {
                return Ok(Some(command));
            }
        }
    }
}

/// A command, and how many bytes it took, including everything around its words.
type RespDecodeResult<'b> = Option<(RespCommand<'b>, usize)>;

/// `*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n`
fn list(
    input: &[u8],
    bounds: RespCommandBounds,
) -> Result<RespDecodeResult<'_>, RespProtocolError> {
    let mut cursor = RespCursor { input, at: 1 };
    let Some(count) = cursor.number().map_err(|RespNumberError| RespProtocolError::Count(None))?
    else {
        return Ok(None);
    };
    let mut words = RespWords::new();
    let Ok(count @ 1..) = usize::try_from(count) else {
        return Ok(Some((RespCommand::Plain(words), cursor.at)));
    };
    if count > bounds.words {
        return Err(RespProtocolError::Count(Some((count, bounds.words))));
    }
    let mut room = bounds.bytes;
    for _ in 0..count {
        match cursor.rest().first() {
            None => return Ok(None),
            Some(b'$') => cursor.at += 1,
            Some(other) => return Err(RespProtocolError::NoWord(*other)),
        }
        let Some(length) =
            cursor.number().map_err(|RespNumberError| RespProtocolError::Length(None))?
        else {
            return Ok(None);
        };
        let fits = usize::try_from(length).ok().filter(|length| *length <= room);
        let length = fits.ok_or(RespProtocolError::Length(Some((length, bounds.bytes))))?;
        room -= length;
        let Some(word) = cursor.word(length)? else { return Ok(None) };
        words.push(word);
    }
    Ok(Some((RespCommand::Plain(words), cursor.at)))
}

/// `ECHO hi\r\n`, as people type it.
fn line(
    input: &[u8],
    bounds: RespCommandBounds,
) -> Result<RespDecodeResult<'_>, RespProtocolError> {
    let seen = input.get(..=bounds.line).unwrap_or(input);
    let Some(end) = seen.iter().position(|byte| *byte == b'\n') else {
        return if seen.len() > bounds.line {
            Err(RespProtocolError::Line(bounds.line))
        } else {
            Ok(None)
        };
    };
    let line = input.get(..end).unwrap_or_default();
    let command = inline::read(line)?;
    if command.len() > bounds.words {
        return Err(RespProtocolError::Count(Some((command.len(), bounds.words))));
    }
    Ok(Some((command, end + 1)))
}

struct RespCursor<'b> {
    input: &'b [u8],
    at: usize,
}

/// Not a number.
struct RespNumberError;

impl<'b> RespCursor<'b> {
    fn rest(&self) -> &'b [u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    /// A number and the end of its line; `None` if it is incomplete.
    fn number(&mut self) -> Result<Option<i64>, RespNumberError> {
        let rest = self.rest();
        let sign = usize::from(rest.first() == Some(&b'-'));
        let mut value = 0_i64;
        for (digits, byte) in rest.iter().skip(sign).enumerate() {
            match byte {
                b'0'..=b'9' if digits < MAX_DIGITS => {
                    value = value * 10 + i64::from(byte - b'0');
                }
                b'\r' if digits > 0 => {
                    let end = sign + digits + 1;
                    return match rest.get(end) {
                        None => Ok(None),
                        Some(b'\n') => {
                            self.at += end + 1;
                            Ok(Some(if sign == 1 { -value } else { value }))
                        }
                        Some(_) => Err(RespNumberError),
                    };
                }
                _ => return Err(RespNumberError),
            }
        }
        Ok(None)
    }

    /// This many bytes and the end of their line; `None` if they are incomplete.
    fn word(&mut self, length: usize) -> Result<Option<&'b [u8]>, RespProtocolError> {
        let rest = self.rest();
        let end = rest.get(length..).unwrap_or_default();
        match end.get(..2) {
            Some(b"\r\n") => {
                self.at += length + 2;
                Ok(rest.get(..length))
            }
            Some(_) => Err(RespProtocolError::NoEnd),
            None if matches!(end, [] | [b'\r']) => Ok(None),
            None => Err(RespProtocolError::NoEnd),
        }
    }
}

/// More digits than any length here has, and fewer than overflow an `i64`.
pub(super) const MAX_DIGITS: usize = 18;

/// Why bytes are not a command. The words before the colon are Redis's own: clients know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RespProtocolError {
    /// A word count that is not one, or that is too large, with the maximum.
    Count(Option<(usize, usize)>),
    /// A length that is not one, or that is negative or too large, with the maximum.
    Length(Option<(i64, usize)>),
    /// Something else where a word should begin.
    NoWord(u8),
    /// A word that goes on where it should end.
    NoEnd,
    /// A line of more than this many bytes.
    Line(usize),
    /// A line with quotes that do not end, or end within a word.
    Quotes,
}

impl fmt::Display for RespProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Self::Count(None) => f.write_str("invalid multibulk length: expected a number"),
            Self::Count(Some((count, most))) => {
                write!(f, "invalid multibulk length: {count} words, expected at most {most}")
            }
            Self::Length(None) => f.write_str("invalid bulk length: expected a number"),
            Self::Length(Some((length, most))) => write!(
                f,
                "invalid bulk length: {length}, expected 0 or more and at most {most} in a command"
            ),
            Self::NoWord(byte) => write!(f, "expected '$', got '{}'", byte.escape_ascii()),
            Self::NoEnd => f.write_str("expected the end of a line after a bulk string"),
            Self::Line(most) => {
                write!(f, "too big inline request: expected at most {most} bytes")
            }
            Self::Quotes => f.write_str("unbalanced quotes in request"),
        }
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
pub(super) mod tests;
