//! Parses the head of a service's HTTP/1 response, and how its body is delimited.

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::decoder::Http1BodyDecoder;
use crate::forward::hop;
use crate::upstream::UpstreamFailure;

/// A response's head, and how its body is delimited.
#[derive(Debug)]
pub(crate) struct UpstreamResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) decoder: Http1BodyDecoder,
    /// Whether the connection can be used again afterwards.
    pub(crate) keep_alive: bool,
}

impl UpstreamResponseHead {
    /// Takes a head off the front of `read`, if it is complete. Hop-by-hop fields are removed, except from
    /// the response that switches protocols.
    pub(crate) fn take(
        read: &mut BytesMut,
        method: &Method,
    ) -> Result<Option<Self>, UpstreamFailure> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let length = match response.parse(read) {
            Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD => length,
            Ok(httparse::Status::Complete(_)) => {
                return Err(UpstreamFailure::Malformed("its head is too large"));
            }
            Ok(httparse::Status::Partial) if read.len() > MAX_HEAD => {
                return Err(UpstreamFailure::Malformed("its head is too large"));
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(UpstreamFailure::Malformed("it has too many fields"));
            }
            Err(_) => return Err(UpstreamFailure::Malformed("it is not HTTP/1.1")),
        };
        let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or(UpstreamFailure::Malformed("its status is invalid"))?;
        let is_1_1 = response.version == Some(1);
        let base = read.as_ptr() as usize;
        let spans: smallvec::SmallVec<[HeadFieldSpan; 16]> =
            response.headers.iter().map(|field| HeadFieldSpan::of(field, base)).collect();
        let bytes = read.split_to(length).freeze();
        let mut headers = HeaderMap::with_capacity(spans.len() + ADDED_LATER);
        for span in spans {
            let (name, value) = span.field(&bytes)?;
            headers.append(name, value);
        }
        let framing = ResponseFraming::of(&headers, is_1_1)?;
        let keep_alive = framing.keep_alive;
        let decoder = framing.decoder(method, status);
        let keep_alive = keep_alive && !matches!(decoder, Http1BodyDecoder::ToTheEnd);
        if status != StatusCode::SWITCHING_PROTOCOLS {
            hop::strip_hop_fields(&mut headers);
        }
        Ok(Some(Self { status, headers, decoder, keep_alive }))
    }
}

/// The positions of a field's name and value in the head.
struct HeadFieldSpan {
    name: (usize, usize),
    value: (usize, usize),
}

impl HeadFieldSpan {
    fn of(field: &httparse::Header<'_>, base: usize) -> Self {
        let span = |bytes: &[u8]| {
            let start = (bytes.as_ptr() as usize).saturating_sub(base);
            (start, start + bytes.len())
        };
        Self { name: span(field.name.as_bytes()), value: span(field.value) }
    }

    /// The name and value. The value shares the memory of the head.
    fn field(&self, head: &Bytes) -> Result<(HeaderName, HeaderValue), UpstreamFailure> {
        let wrong = || UpstreamFailure::Malformed("it has an invalid field");
        let name = head.get(self.name.0..self.name.1).ok_or_else(wrong)?;
        let name = HeaderName::from_bytes(name).map_err(|_| wrong())?;
        if self.value.1 > head.len() {
            return Err(wrong());
        }
        let value = head.slice(self.value.0..self.value.1);
        let value = HeaderValue::from_maybe_shared(value).map_err(|_| wrong())?;
        Ok((name, value))
    }
}

/// The fields that delimit the body and keep the connection open.
struct ResponseFraming {
    length: Option<u64>,
    is_chunked: bool,
    keep_alive: bool,
}

impl ResponseFraming {
    fn of(headers: &HeaderMap, is_1_1: bool) -> Result<Self, UpstreamFailure> {
        let mut length = None;
        for value in headers.get_all(CONTENT_LENGTH) {
            let number = parse_digits(value.as_bytes());
            if number.is_none() || (length.is_some() && length != number) {
                return Err(UpstreamFailure::Malformed("its length is invalid or ambiguous"));
            }
            length = number;
        }
        let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
        let coding = codings.next().map(HeaderValue::as_bytes);
        let is_chunked = coding.is_some_and(|it| it.eq_ignore_ascii_case(b"chunked"));
        // With both a length and chunks, another parser could see another end of the body. Any other coding
        // would be neither decoded here nor announced to the client.
        let is_unclear = length.is_some() || codings.next().is_some() || !is_1_1 || !is_chunked;
        if coding.is_some() && is_unclear {
            return Err(UpstreamFailure::Malformed("its framing is ambiguous"));
        }
        let connection_has = |token| hop::has_token(headers, CONNECTION, token);
        let keep_alive =
            if is_1_1 { !connection_has("close") } else { connection_has("keep-alive") };
        Ok(Self { length, is_chunked, keep_alive })
    }

    fn decoder(&self, method: &Method, status: StatusCode) -> Http1BodyDecoder {
        let has_none = *method == Method::HEAD
            || status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        match self.length {
            _ if has_none => Http1BodyDecoder::sized(0),
            _ if self.is_chunked => Http1BodyDecoder::chunked(),
            Some(length) => Http1BodyDecoder::sized(length),
            None => Http1BodyDecoder::ToTheEnd,
        }
    }
}

/// Parses a number of ASCII digits, without a sign or spaces.
pub(crate) fn parse_digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    text.parse().ok()
}

const MAX_HEAD: usize = 64 << 10;
pub(super) const MAX_FIELDS: usize = 128;
/// Capacity for `RateLimit`, `RateLimit-Policy`, and some fields by rules.
const ADDED_LATER: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn take(text: &str) -> Result<Option<UpstreamResponseHead>, UpstreamFailure> {
        UpstreamResponseHead::take(&mut BytesMut::from(text), &Method::GET)
    }

    fn decoder(text: &str) -> Http1BodyDecoder {
        take(text).unwrap().unwrap().decoder
    }

    #[test]
    fn the_end_of_a_body_is_told_as_the_rfc_has_it() {
        let ok = "HTTP/1.1 200 OK\r\n";
        assert_eq!(decoder(&format!("{ok}content-length: 5\r\n\r\n")), Http1BodyDecoder::sized(5));
        assert_eq!(
            decoder(&format!("{ok}transfer-encoding: Chunked\r\n\r\n")),
            Http1BodyDecoder::chunked()
        );
        assert_eq!(decoder(&format!("{ok}\r\n")), Http1BodyDecoder::ToTheEnd);
        let none = "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n";
        assert_eq!(decoder(none), Http1BodyDecoder::sized(0));
        let mut head = BytesMut::from(&b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"[..]);
        let head = UpstreamResponseHead::take(&mut head, &Method::HEAD).unwrap().unwrap();
        assert_eq!(head.decoder, Http1BodyDecoder::sized(0));
        assert_eq!(head.headers["content-length"], "5");
    }

    #[test]
    fn what_is_ambiguous_or_no_http_is_refused() {
        for fields in [
            "content-length: 5\r\ncontent-length: 6",
            "content-length: 5, 5",
            "content-length: +5",
            "content-length: -1",
            "content-length: 99999999999999999999",
            "content-length: 5\r\ntransfer-encoding: chunked",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "transfer-encoding: gzip",
            "transfer-encoding: gzip, chunked",
            "na me: x",
            "x : y",
            ": y",
        ] {
            assert!(take(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n")).is_err(), "{fields}");
        }
        for head in ["SSH-2.0-x\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 99 x\r\n\r\n"] {
            assert!(take(head).is_err(), "{head}");
        }
        assert!(take("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(take(&format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(70_000))).is_err());
        assert!(take("HTTP/1.1 200 OK\r\nx: y").unwrap().is_none());
    }

    #[test]
    fn what_concerns_the_connection_stays_there() {
        let head = "HTTP/1.1 200 OK\r\nconnection: close, x-secret\r\nx-secret: 1\r\n\
                    keep-alive: timeout=5\r\nx-other: 2\r\ncontent-length: 0\r\n\r\n";
        let head = take(head).unwrap().unwrap();
        let mut names: Vec<_> = head.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-length", "x-other"]);
        assert!(!head.keep_alive);
        let keeps = |text: &str| take(text).unwrap().unwrap().keep_alive;
        assert!(keeps("HTTP/1.1 204 No Content\r\n\r\n"));
        assert!(!keeps("HTTP/1.0 204 No Content\r\n\r\n"));
        assert!(keeps("HTTP/1.0 204 No Content\r\nconnection: keep-alive\r\n\r\n"));
    }
}
