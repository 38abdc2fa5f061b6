//! Reads from the head of an HTTP/1 request where the request ends.

use memchr::memchr;
use tidegate::text::digits;

/// The headers that determine the framing. hyper reads all others, and refuses malformed heads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Http1Head<'a> {
    is_1_1: bool,
    host: HeadField<'a>,
    length: HeadField<'a>,
    coding: HeadField<'a>,
    upgrade: HeadField<'a>,
    has_bare_newline: bool,
}

/// How often a header occurs, and its last value.
#[derive(Clone, Copy, Debug, Default)]
struct HeadField<'a> {
    count: usize,
    value: &'a [u8],
}

/// The framing of the bytes after a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestBodyFraming {
    /// A body of this many bytes, and then another head.
    Sized(u64),
    Chunks,
    /// Perhaps another protocol, once the request is answered.
    Upgrade,
    /// HTTP implementations disagree about it.
    Ambiguous,
}

impl<'a> Http1Head<'a> {
    /// Reads the head at the start of `bytes`, and returns where it ends; `None` if it is incomplete.
    /// Empty lines before the request line are skipped.
    pub(super) fn read(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let (mut head, mut start, mut has_begun) = (Self::default(), 0, false);
        loop {
            let rest = bytes.get(start..)?;
            let end = memchr(b'\n', rest)?;
            start = start.saturating_add(end).saturating_add(1);
            let line = rest.get(..end)?;
            // Some implementations accept a bare newline as the end of a line, and others do not.
            let whole = line.strip_suffix(b"\r");
            head.has_bare_newline |= whole.is_none();
            match whole.unwrap_or(line) {
                b"" if has_begun => return Some((head, start)),
                b"" => {}
                line if has_begun => head.note(line),
                line => {
                    head.is_1_1 = line.ends_with(b"HTTP/1.1");
                    has_begun = true;
                }
            }
        }
    }

    fn note(&mut self, line: &'a [u8]) {
        let (field, name): (_, &[u8]) = match line.first().map(u8::to_ascii_lowercase) {
            Some(b'h') => (&mut self.host, b"host"),
            Some(b'c') => (&mut self.length, b"content-length"),
            Some(b't') => (&mut self.coding, b"transfer-encoding"),
            Some(b'u') => (&mut self.upgrade, b"upgrade"),
            _ => return,
        };
        if let Some((start, value)) = line.split_at_checked(name.len())
            && start.eq_ignore_ascii_case(name)
            && let Some(value) = value.strip_prefix(b":")
        {
            *field = HeadField { count: field.count.saturating_add(1), value: value.trim_ascii() };
        }
    }

    /// The framing after this head, by the strictest reading.
    pub(super) fn body_framing(&self) -> RequestBodyFraming {
        let (lengths, codings) = (self.length.count, self.coding.count);
        let is_unclear = lengths.saturating_add(codings) > 1 || self.host.count > 1;
        // HTTP/1.0 has no chunks.
        if is_unclear || self.has_bare_newline || (codings > 0 && !self.is_1_1) {
            return RequestBodyFraming::Ambiguous;
        }
        if codings > 0 {
            let is_chunked = self.coding.value.eq_ignore_ascii_case(b"chunked");
            return if is_chunked {
                RequestBodyFraming::Chunks
            } else {
                RequestBodyFraming::Ambiguous
            };
        }
        match digits(self.length.value).filter(|_| lengths > 0) {
            None if lengths > 0 => RequestBodyFraming::Ambiguous,
            Some(length @ 1..) => RequestBodyFraming::Sized(length),
            _ if self.is_1_1 && self.upgrade.count > 0 => RequestBodyFraming::Upgrade,
            _ => RequestBodyFraming::Sized(0),
        }
    }

    /// Whether this is an HTTP/1.1 request without a host.
    pub(super) const fn lacks_host(&self) -> bool {
        self.is_1_1 && self.host.count == 0
    }
}
