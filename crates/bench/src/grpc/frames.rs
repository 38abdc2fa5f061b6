//! The part of HTTP/2 that a client with one kind of call needs. Frames are written by hand, so that the
//! client takes a fraction of the server's time.

use prost::Message;
use tidegate_wire::envoy::{RateLimitDescriptor, RateLimitRequest};

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// What a connection begins with: the preface, no settings, and the largest possible window.
pub(super) const HELLO: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x04\x08\0\0\0\0\0\x3f\0\0\0";

/// When that window is renewed, in bytes received.
pub(super) const ROOM: usize = 0x3f00_0000 / 2;
pub(super) const MORE_ROOM: &[u8] = b"\0\0\x04\x08\0\0\0\0\0\x1f\x80\0\0";
pub(super) const SETTINGS_ACK: &[u8] = b"\0\0\0\x04\x01\0\0\0\0";

pub(super) const DATA: u8 = 0;
pub(super) const RESET: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const ACK: u8 = 1;
pub(super) const END_STREAM: u8 = 1;

/// A frame from a server.
pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The first frame, if it is complete, and the rest.
    pub(super) fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (&[a, b, c, kind, flags, d, e, f, g], rest) = bytes.split_first_chunk()?;
        let (payload, rest) = rest.split_at_checked(u32::from_be_bytes([0, a, b, c]) as usize)?;
        let stream = u32::from_be_bytes([d, e, f, g]) & 0x7fff_ffff;
        Some((Self { kind, flags, stream, payload }, rest))
    }
}

/// Writes calls that differ only in their key.
pub(super) struct Writer {
    /// The first call, whose fields the server stores in its table.
    head: Vec<u8>,
    body: Vec<u8>,
    key: usize,
    next: u32,
}

impl Writer {
    pub(super) fn new() -> Self {
        let descriptor = RateLimitDescriptor::new([("user", KEY)]);
        let request = RateLimitRequest {
            domain: "bench".to_owned(),
            descriptors: vec![descriptor],
            hits_addend: 0,
        };
        let message = request.encode_to_vec();
        let mut body = vec![0];
        body.extend((message.len() as u32).to_be_bytes());
        body.extend(&message);
        let key = body.windows(KEY.len()).position(|bytes| bytes == KEY.as_bytes());
        let key = key.unwrap_or_default() + KEY.len() - DIGITS;
        Self { head: first_head(), body, key, next: 1 }
    }

    /// Writes a call for this key and returns its stream.
    pub(super) fn call(&mut self, mut key: u32, out: &mut Vec<u8>) -> u32 {
        let stream = self.next;
        self.next += 2;
        for digit in self.body[self.key..self.key + DIGITS].iter_mut().rev() {
            *digit = b'0' + (key % 10) as u8;
            key /= 10;
        }
        let head: &[u8] = if stream == 1 { &self.head } else { REPEATED_HEAD };
        frame(HEADERS, END_HEADERS, stream, head, out);
        frame(DATA, END_STREAM, stream, &self.body, out);
        stream
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}

/// POST and http are in HPACK's own table; the other fields are added to the server's.
fn first_head() -> Vec<u8> {
    let mut head = vec![0x83, 0x86];
    let text = |text: &str| {
        let mut bytes = vec![text.len() as u8];
        bytes.extend(text.as_bytes());
        bytes
    };
    for (name, value) in [
        (&[0x44][..], PATH),
        (&[0x41], "bench"),
        (&[0x5f], "application/grpc"),
        (&[&[0x40][..], &text("te")].concat(), "trailers"),
        (&[&[0x40][..], &text("grpc-timeout")].concat(), "10S"),
    ] {
        head.extend(name);
        head.extend(text(value));
    }
    head
}

/// The same fields by their numbers: the last one that was added to the table is 62.
const REPEATED_HEAD: &[u8] = &[0x83, 0x86, 0xc2, 0xc1, 0xc0, 0xbf, 0xbe];

const HEADERS: u8 = 1;
const END_HEADERS: u8 = 4;
const KEY: &str = "user:0000000";
const DIGITS: usize = 7;
