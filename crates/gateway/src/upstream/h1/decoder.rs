//! Decodes the body of a service's HTTP/1 response from its framing.

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::upstream::UpstreamFailure;

/// The framing of a body, and how much of it is left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Http1BodyDecoder {
    /// This many bytes are left.
    Sized(u64),
    /// The body is in chunks.
    Chunked(Http1ChunkState),
    /// The body lasts until the connection ends.
    ToTheEnd,
}

/// The position within a chunked body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Http1ChunkState {
    /// Before the size of a chunk.
    Size,
    /// Within a chunk, with this many bytes left.
    Data(u64),
    /// After the data of a chunk, before its line break.
    Rest,
    /// After the last chunk.
    Trailers,
    /// At the end.
    Done,
}

/// The next part of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Http1BodyPart {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
    /// More bytes are needed.
    More,
}

impl Http1BodyDecoder {
    pub(crate) const fn sized(length: u64) -> Self {
        Self::Sized(length)
    }

    pub(crate) const fn chunked() -> Self {
        Self::Chunked(Http1ChunkState::Size)
    }

    /// How many bytes of the body are left, if that is known.
    pub(crate) const fn length(&self) -> Option<u64> {
        match self {
            Self::Sized(length) => Some(*length),
            Self::Chunked(_) | Self::ToTheEnd => None,
        }
    }

    /// Takes the next part off the front of `read`.
    pub(crate) fn take(&mut self, read: &mut BytesMut) -> Result<Http1BodyPart, UpstreamFailure> {
        match self {
            Self::Sized(0) => Ok(Http1BodyPart::End),
            Self::Sized(left) => Ok(data(left, read)),
            Self::ToTheEnd if read.is_empty() => Ok(Http1BodyPart::More),
            Self::ToTheEnd => Ok(Http1BodyPart::Data(read.split().freeze())),
            Self::Chunked(chunks) => chunks.take(read),
        }
    }
}

impl Http1ChunkState {
    fn take(&mut self, read: &mut BytesMut) -> Result<Http1BodyPart, UpstreamFailure> {
        loop {
            match self {
                Self::Size => match size(read)? {
                    None => return Ok(Http1BodyPart::More),
                    Some(0) => *self = Self::Trailers,
                    Some(size) => *self = Self::Data(size),
                },
                Self::Data(0) => *self = Self::Rest,
                Self::Data(left) => return Ok(data(left, read)),
                Self::Rest => match read.get(..2) {
                    None => return Ok(Http1BodyPart::More),
                    Some(b"\r\n") => {
                        read.advance(2);
                        *self = Self::Size;
                    }
                    Some(_) => {
                        return Err(UpstreamFailure::Malformed("a chunk is longer than its size"));
                    }
                },
                Self::Trailers => match trailers(read)? {
                    None => return Ok(Http1BodyPart::More),
                    Some(trailers) => {
                        *self = Self::Done;
                        if !trailers.is_empty() {
                            return Ok(Http1BodyPart::Trailers(trailers));
                        }
                    }
                },
                Self::Done => return Ok(Http1BodyPart::End),
            }
        }
    }
}

fn data(left: &mut u64, read: &mut BytesMut) -> Http1BodyPart {
    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(read.len());
    if count == 0 {
        return Http1BodyPart::More;
    }
    *left -= count as u64;
    Http1BodyPart::Data(read.split_to(count).freeze())
}

/// The size of a chunk, from its line. Extensions after a semicolon are ignored.
fn size(read: &mut BytesMut) -> Result<Option<u64>, UpstreamFailure> {
    let wrong = UpstreamFailure::Malformed("a chunk has no valid size");
    let end = read.iter().take(MAX_LINE).position(|byte| *byte == b'\n');
    let Some(end) = end else {
        return if read.len() >= MAX_LINE { Err(wrong) } else { Ok(None) };
    };
    let line = read.split_to(end + 1);
    // Some parsers take a carriage return within the line for its end.
    let line = line.strip_suffix(b"\r\n").filter(|line| !line.contains(&b'\r'));
    let Some(line) = line else { return Err(wrong) };
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    let is_number = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number);
    let size = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    size.map(Some).ok_or(wrong)
}

/// The trailers after the last chunk, once all of them have arrived.
fn trailers(read: &mut BytesMut) -> Result<Option<HeaderMap>, UpstreamFailure> {
    if read.starts_with(b"\r\n") {
        read.advance(2);
        return Ok(Some(HeaderMap::new()));
    }
    let wrong = || UpstreamFailure::Malformed("its trailers are invalid");
    let mut fields = [httparse::EMPTY_HEADER; MAX_TRAILERS];
    let mut trailers = HeaderMap::new();
    let length = match httparse::parse_headers(read, &mut fields) {
        Ok(httparse::Status::Partial) if read.len() > MAX_TRAILER_BYTES => return Err(wrong()),
        Ok(httparse::Status::Partial) => return Ok(None),
        // The bound must not depend on the portions in which the bytes arrive.
        Ok(httparse::Status::Complete((length, _)))
            if length > MAX_TRAILER_BYTES || has_bare_newline(read, length) =>
        {
            return Err(wrong());
        }
        Ok(httparse::Status::Complete((length, fields))) => {
            for field in fields {
                let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| wrong())?;
                let value = HeaderValue::from_bytes(field.value).map_err(|_| wrong())?;
                trailers.append(name, value);
            }
            length
        }
        Err(_) => return Err(wrong()),
    };
    read.advance(length);
    Ok(Some(trailers))
}

/// Parsers disagree whether a bare line feed ends a line.
fn has_bare_newline(read: &[u8], length: usize) -> bool {
    let lines = read.get(..length).unwrap_or_default().split(|byte| *byte == b'\n');
    // The last part is empty: the text ends with a line feed.
    lines.rev().skip(1).any(|line| line.last() != Some(&b'\r'))
}

const MAX_LINE: usize = 1 << 10;
const MAX_TRAILERS: usize = 32;
const MAX_TRAILER_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// The data and trailers of a body that arrives in portions, and whether it is complete.
    fn parts(text: &str, portion: usize) -> Result<(Vec<u8>, HeaderMap, bool), UpstreamFailure> {
        let (mut decoder, mut read) = (Http1BodyDecoder::chunked(), BytesMut::new());
        let (mut data, mut trailers) = (Vec::new(), HeaderMap::new());
        for bytes in text.as_bytes().chunks(portion) {
            read.extend_from_slice(bytes);
            loop {
                match decoder.take(&mut read)? {
                    Http1BodyPart::Data(bytes) => data.extend_from_slice(&bytes),
                    Http1BodyPart::Trailers(fields) => trailers = fields,
                    Http1BodyPart::End => return Ok((data, trailers, true)),
                    Http1BodyPart::More => break,
                }
            }
        }
        Ok((data, trailers, false))
    }

    #[test]
    fn chunks_are_the_same_in_any_portions() {
        let text =
            "5;x=y\r\nhello\r\n1 \r\n \r\nA\r\n0123456789\r\n0\r\nx-sum: 1\r\nx-b: 2\r\n\r\n";
        for portion in 1..text.len() {
            let (data, trailers, ended) = parts(text, portion).unwrap();
            assert_eq!(data, b"hello 0123456789", "{portion}");
            assert_eq!(
                (trailers.len(), &trailers["x-sum"], ended),
                (2, &"1".parse().unwrap(), true)
            );
        }
        assert!(!parts("5\r\nhello\r\n0\r\n", 3).unwrap().2);
        assert!(parts("0\r\n\r\n", 1).unwrap().2);
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for text in [
            "\r\nhello",
            "x\r\n",
            "-5\r\n",
            "+5\r\nhello",
            "0x5\r\nhello",
            "5\nhello\r\n",
            "5\r\nhello!\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "fffffffffffffffff\r\n",
            "1000000000000000\r\n",
            "0\r\nno field\r\n\r\n",
            "5;a\rb\r\nhello\r\n0\r\n\r\n",
            "0\r\nx: y\n\r\n",
            "0\r\nx: y\r\n\n",
        ] {
            assert!(parts(text, text.len()).is_err(), "{text:?}");
        }
        assert!(parts(&"1".repeat(2_000), 100).is_err());
        // Whether a line is too long does not depend on how much of it arrives in one read.
        let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(2_000));
        let trailer = format!("0\r\nx: {}\r\n\r\n", "y".repeat(20_000));
        for text in [long, trailer] {
            assert!(parts(&text, text.len()).is_err() && parts(&text, 7).is_err());
        }
    }

    #[test]
    fn a_sized_body_ends_when_it_is_complete() {
        let (mut decoder, mut read) = (Http1BodyDecoder::sized(5), BytesMut::from(&b"hel"[..]));
        assert_eq!(decoder.take(&mut read).unwrap(), Http1BodyPart::Data(Bytes::from("hel")));
        assert_eq!(decoder.take(&mut read).unwrap(), Http1BodyPart::More);
        read.extend_from_slice(b"lo, and more");
        assert_eq!(decoder.take(&mut read).unwrap(), Http1BodyPart::Data(Bytes::from("lo")));
        assert_eq!(decoder.take(&mut read).unwrap(), Http1BodyPart::End);
        assert_eq!(&read[..], b", and more");
    }
}
