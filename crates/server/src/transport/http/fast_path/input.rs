//! Recognises plain checks in a connection's bytes: those that every HTTP parser reads the same way.

use memchr::memchr_iter;
use tidegate::text::digits;

use super::super::browser::is_plain_loopback;
use crate::ListenerConfig;
use crate::service::trace::TraceParent;

/// What a connection's unread bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FastPathInput<'b> {
    /// A complete check: its header lines, its body, and the length of both with the first line.
    Check { head: &'b [u8], body: &'b [u8], length: usize },
    /// Possibly a check, but not all of it has arrived.
    Part,
    /// Something else, or a check with something unusual about it.
    Other,
}

/// Classifies the beginning of `bytes`. `is_local` means that the listener is on a loopback address, so
/// that pages in this machine's browsers can reach it.
pub(super) fn recognise<'b>(
    bytes: &'b [u8],
    config: &ListenerConfig,
    is_local: bool,
) -> FastPathInput<'b> {
    let Some(rest) = bytes.strip_prefix(FIRST_LINE) else {
        return if FIRST_LINE.starts_with(bytes) {
            FastPathInput::Part
        } else {
            FastPathInput::Other
        };
    };
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let (head, fields) = match httparse::parse_headers(rest, &mut fields) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return FastPathInput::Part,
        Err(_) => return FastPathInput::Other,
    };
    let (head, rest) = rest.split_at_checked(head).unwrap_or_default();
    let is_short = FIRST_LINE.len().saturating_add(head.len()) <= config.max_head;
    let length = length(fields, is_local).filter(|_| is_short && has_plain_lines(head));
    match length.filter(|length| *length <= config.max_body) {
        None => FastPathInput::Other,
        Some(length) => match rest.get(..length) {
            None => FastPathInput::Part,
            Some(body) => {
                FastPathInput::Check { head, body, length: FIRST_LINE.len() + head.len() + length }
            }
        },
    }
}

/// The caller's span, if the header lines of a check have one. They are parsed again, which only requests
/// that are traced pay for.
pub(super) fn trace_parent(head: &[u8]) -> Option<TraceParent> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let Ok(httparse::Status::Complete((_, fields))) = httparse::parse_headers(head, &mut fields)
    else {
        return None;
    };
    let fields = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(TraceParent::FIELD));
    TraceParent::only(fields.map(|field| field.value))
}

/// The length of the body; `None` if a header needs more than a plain response.
fn length(fields: &[httparse::Header<'_>], is_local: bool) -> Option<usize> {
    let (mut length, mut hosts) = (None, 0_usize);
    for field in fields {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        // Compare lengths first: most headers are none of these.
        match field.name.len() {
            4 if is("host") => {
                if is_local && !is_plain_loopback(field.value) {
                    return None;
                }
                hosts += 1;
            }
            6 if is("expect") || is("origin") => return None,
            7 if is("upgrade") => return None,
            10 if is("connection") && !field.value.eq_ignore_ascii_case(b"keep-alive") => {
                return None;
            }
            14 if is("sec-fetch-site") => return None,
            14 if is("content-length") => {
                let announced = usize::try_from(digits(field.value)?).ok()?;
                if length.replace(announced).is_some() {
                    return None;
                }
            }
            17 if is("transfer-encoding") => return None,
            _ => {}
        }
    }
    length.filter(|_| hosts <= 1)
}

/// Whether all lines end with CRLF: some parsers also accept a bare newline.
fn has_plain_lines(head: &[u8]) -> bool {
    let before = |at: usize| at.checked_sub(1).and_then(|at| head.get(at));
    memchr_iter(b'\n', head).all(|at| before(at) == Some(&b'\r'))
}

const FIRST_LINE: &[u8] = b"POST /v1/check HTTP/1.1\r\n";
/// A request with more headers than this is left to hyper.
const MAX_FIELDS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> FastPathInput<'_> {
        let config = ListenerConfig { max_body: 10, max_head: 100, ..ListenerConfig::default() };
        recognise(text.as_bytes(), &config, true)
    }

    #[test]
    fn a_check_is_seen_once_all_of_it_is_there() {
        let head = "POST /v1/check HTTP/1.1\r\nHost: localhost:1\r\nConnection: Keep-Alive\r\n\
                    content-length: 2\r\nx: y\r\n\r\n";
        let text = format!("{head}{{}}");
        let lines = head.strip_prefix("POST /v1/check HTTP/1.1\r\n").unwrap().as_bytes();
        let whole = FastPathInput::Check { head: lines, body: b"{}", length: text.len() };
        assert_eq!(seen(&text), whole);
        assert_eq!(seen(&format!("{text}POST")), whole);
        for end in 0..text.len() {
            assert_eq!(seen(&text[..end]), FastPathInput::Part, "{end}");
        }
    }

    #[test]
    fn a_trace_is_read_from_the_only_header_that_has_one() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let line = format!("TraceParent: {parent}\r\n");
        let read = |head: String| trace_parent(head.as_bytes());
        assert_eq!(read(format!("a: b\r\n{line}\r\n")), TraceParent::parse(parent.as_bytes()));
        assert_eq!(read(format!("{line}{line}\r\n")), None);
        assert_eq!(read("a: b\r\n\r\n".to_owned()), None);
    }

    #[test]
    fn unusual_requests_are_left_to_hyper() {
        let line = "POST /v1/check HTTP/1.1\r\n";
        for head in [
            "GET /v1/check HTTP/1.1\r\n\r\n",
            "POST /v1/check HTTP/1.0\r\ncontent-length: 0\r\n\r\n",
            "POST /v1/check?a HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
            "POST /v1/check/batch HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
            "\r\nPOST /v1/check HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
        ] {
            assert_eq!(seen(head), FastPathInput::Other, "{head}");
        }
        for fields in [
            "host: a\r\n",
            "content-length: 0\r\ncontent-length: 0\r\n",
            "content-length: +0\r\n",
            "content-length:\r\n",
            "content-length: 99999999999999999999\r\n",
            "content-length: 11\r\n",
            "content-length: 0\r\ntransfer-encoding: chunked\r\n",
            "content-length: 0\r\nexpect: 100-continue\r\n",
            "content-length: 0\r\nupgrade: h2c\r\n",
            "content-length: 0\r\nconnection: close\r\n",
            "content-length: 0\r\nhost: localhost\r\nhost: localhost\r\n",
            "content-length: 0\r\nhost: a\r\n",
            "content-length: 0\r\norigin: http://localhost\r\n",
            "content-length: 0\r\nsec-fetch-site: none\r\n",
            "content-length: 0\nhost: a\r\n",
            "content-length: 0\r\nx : y\r\n",
            "content-length: 0\r\n x: y\r\n",
            "content-length: 0\r\nx: \0\r\n",
            &format!("content-length: 0\r\nx: {}\r\n", "y".repeat(100)),
            &format!("content-length: 0\r\n{}", "x: y\r\n".repeat(32)),
        ] {
            assert_eq!(seen(&format!("{line}{fields}\r\n")), FastPathInput::Other, "{fields}");
        }
    }
}
