//! The requests of the smuggling test, and the expected outcome of each.

/// The expected outcome of a request.
pub(crate) enum Fate {
    /// Answered with one of these statuses, and never seen by the service.
    Refused(&'static [u16]),
    /// Seen by the service as these request lines, and nothing else, with these bodies.
    Seen(&'static [&'static str], &'static str),
}

use Fate::{Refused, Seen};

const BAD: Fate = Refused(&[400]);
const GET_A: Fate = Seen(&["GET /a HTTP/1.1"], "");

/// The bytes of each request. In all of them, `SMUGGLED` marks the place where another parser could see a
/// second request.
pub(crate) const CORPUS: &[(&str, &str, Fate)] = &[
    // Where a body ends.
    (
        "length and chunks",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "chunks and length",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "two lengths",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 38\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "two lengths, the other order",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 38\r\nContent-Length: 0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "the same length twice",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        BAD,
    ),
    ("a list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello", BAD),
    ("a length with a sign", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", BAD),
    ("a negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nhello", BAD),
    ("a hexadecimal length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello", BAD),
    (
        "a length with a space",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\nhello",
        BAD,
    ),
    (
        "an empty length",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a length beyond all numbers",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
        BAD,
    ),
    (
        "another coding",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "identity and a length",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
        BAD,
    ),
    (
        "two codings",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "chunked is not the last",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "chunked twice",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "chunked, nearly",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "chunked in quotes",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "chunked behind a vertical tab",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a space before the colon",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a tab before the colon",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 5\r\n\r\nhello",
        BAD,
    ),
    (
        "chunks in HTTP/1.0",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a folded coding",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "chunks as they should be",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n5;x=\"y\"\r\nhello\r\n0\r\n\r\n",
        Seen(&["POST /a HTTP/1.1"], "5\r\nhello\r\n0\r\n\r\n"),
    ),
    // Chunks.
    (
        "a chunk that ends with a line feed",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a chunk with a prefix",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "a chunk with a sign",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "a chunk beyond all numbers",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a chunk longer than it says",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n",
        BAD,
    ),
    (
        "a line feed in an extension",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nGET /SMUGGLED\r\nhello\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "a line feed in a trailer",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx: y\nGET /SMUGGLED HTTP/1.1\r\n\r\n",
        BAD,
    ),
    // Lines.
    ("line feeds alone", "GET /a HTTP/1.1\nHost: a\n\n", BAD),
    ("a line feed in between", "GET /a HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", BAD),
    ("a carriage return alone", "GET /a HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", BAD),
    ("a folded line", "GET /a HTTP/1.1\r\nHost: a\r\nX: y\r\n folded: z\r\n\r\n", BAD),
    ("a field without a colon", "GET /a HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", BAD),
    ("a field without a name", "GET /a HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n", BAD),
    ("a field that begins with a space", "GET /a HTTP/1.1\r\n Host: a\r\n\r\n", BAD),
    ("a NUL in a field", "GET /a HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", BAD),
    ("a control character in a name", "GET /a HTTP/1.1\r\nHost: a\r\nX\x01: y\r\n\r\n", BAD),
    ("empty lines before it", "\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    // The first line.
    ("a tab instead of a space", "GET\t/a HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("two spaces", "GET  /a HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("a space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("a fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    ("HTTP/0.9", "GET /a\r\n\r\n", BAD),
    ("another version", "GET /a HTTP/1.2\r\nHost: a\r\n\r\n", BAD),
    ("another protocol", "GET /a HTCPCP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("no path", "GET a HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("an asterisk", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("a tunnel", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", Refused(&[405])),
    ("bytes beyond ASCII", "GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    // Hosts.
    ("no host", "GET /a HTTP/1.1\r\n\r\n", BAD),
    ("two hosts", "GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", BAD),
    ("the same host twice", "GET /a HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", BAD),
    ("a host that is a list", "GET /a HTTP/1.1\r\nHost: a, b\r\n\r\n", BAD),
    ("a host with a path", "GET /a HTTP/1.1\r\nHost: a/b\r\n\r\n", BAD),
    ("a user in the host", "GET /a HTTP/1.1\r\nHost: user@a\r\n\r\n", BAD),
    ("a target with another host", "GET http://b/a HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("a target with its host", "GET http://a/a HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    // Paths.
    ("an encoded slash", "GET /a%2fSMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("an encoded backslash", "GET /a%5c..%5cSMUGGLED HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("an encoded NUL", "GET /a%00 HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("an encoded line break", "GET /a%0d%0aX:%20y HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("half an escape", "GET /a% HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("dots", "GET /x/../a HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    ("dots in disguise", "GET /x/%2e%2E/a HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    ("more dots than there are segments", "GET /../../a HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    ("slashes", "GET //a HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    ("letters in disguise", "GET /%61 HTTP/1.1\r\nHost: a\r\n\r\n", GET_A),
    // Fields of the connection.
    (
        "a field that Connection names",
        "GET /a HTTP/1.1\r\nHost: a\r\nConnection: x-a\r\nX-A: SMUGGLED\r\n\r\n",
        BAD,
    ),
    (
        "a length that Connection names",
        "POST /a HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: 5\r\n\r\nhello",
        BAD,
    ),
    (
        "an upgrade with a body",
        "POST /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: SMUGGLED\r\nContent-Length: 5\r\n\r\nhello",
        Seen(&["POST /a HTTP/1.1"], "hello"),
    ),
    (
        "a length and a request behind it",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\nhello\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
        Seen(&["POST /a HTTP/1.1", "GET /b HTTP/1.1"], "hello"),
    ),
];
