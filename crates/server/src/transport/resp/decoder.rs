//! Decodes bytes into commands: lists of words that refer to the input buffer.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

use super::inline;

/// The name of a command and its arguments.
pub(super) type RespWords<'b> = SmallVec<[&'b [u8]; 8]>;

/// A decoded command.
#[derive(Debug)]
pub(super) enum RespCommand<'b> {
    /// The words refer to the input buffer.
    Plain(RespWords<'b>),
    /// The words of an inline command with quotes, unescaped.
    Escaped(Vec<Vec<u8>>),
}

impl RespCommand<'_> {
    /// The name and the arguments. Not empty for commands that [`RespDecoder::next`] returns.
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

/// How large a command can be.
#[derive(Clone, Copy, Debug)]
pub(super) struct RespCommandBounds {
    /// The most words of a command.
    pub(super) words: usize,
    /// The most bytes of all words of a command.
    pub(super) bytes: usize,
    /// The most bytes of an inline command.
    pub(super) line: usize,
}

/// Finds commands, one after the other.
///
/// The decoder keeps no state of an incomplete command: it is read from its beginning when more has
/// arrived. That is cheap, since words are skipped by their length.
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

    /// How many bytes have been consumed.
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

    /// Skips commands of this many bytes that the caller has decoded itself.
    pub(super) fn skip(&mut self, length: usize) {
        self.taken += length;
    }

    /// The next command; `None` if the rest is not a complete command.
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
            // An empty list or an empty line is not a command and gets no reply, as in Redis.
            if command.len() > 0 {
                return Ok(Some(command));
            }
        }
    }
}

/// A command and its length in bytes; `None` if it is incomplete.
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
    let mut left = bounds.bytes;
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
        let fits = usize::try_from(length).ok().filter(|length| *length <= left);
        let length = fits.ok_or(RespProtocolError::Length(Some((length, bounds.bytes))))?;
        left -= length;
        let Some(word) = cursor.word(length)? else { return Ok(None) };
        words.push(word);
    }
    Ok(Some((RespCommand::Plain(words), cursor.at)))
}

/// `ECHO hi\r\n`, an inline command.
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

/// A position in the input while a command is decoded.
struct RespCursor<'b> {
    input: &'b [u8],
    at: usize,
}

/// The error for a line that is not a number.
struct RespNumberError;

impl<'b> RespCursor<'b> {
    fn rest(&self) -> &'b [u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    /// Reads a number and the end of its line; `None` if they are incomplete.
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

    /// Reads this many bytes and the end of their line; `None` if they are incomplete.
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

/// Why bytes are not a command. The texts begin with those of Redis, which clients recognise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RespProtocolError {
    /// A word count that is not a number, or that is too large, with the maximum.
    Count(Option<(usize, usize)>),
    /// A length that is not a number, or that is negative or too large, with the maximum.
    Length(Option<(i64, usize)>),
    /// Another byte where a word should begin.
    NoWord(u8),
    /// A word that continues where it should end.
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
pub(super) mod tests;
