//! Follows the frames of an HTTP/2 connection without decoding them: detects incomplete heads, and floods
//! of frames that carry neither requests nor bodies.

use super::glitch_budget::GlitchBudget;

/// The position in the frames of a connection.
#[derive(Debug)]
pub(super) struct FrameFollower {
    /// The frame header as far as it has arrived.
    header: [u8; FRAME_HEADER],
    /// How many bytes of the frame header have arrived.
    has: usize,
    /// How many bytes of the payload are missing.
    left: usize,
    kind: u8,
    /// Whether the headers of a request continue in the next frame.
    goes_on: bool,
    /// Counts frames, but not continuations.
    number: u32,
    /// The highest stream of a request so far.
    last: u32,
    glitches: GlitchBudget,
    is_flood: bool,
}

impl FrameFollower {
    /// At the start of a connection. The client preface is treated like the payload of a frame.
    pub(super) fn new() -> Self {
        Self {
            header: [0; FRAME_HEADER],
            has: 0,
            left: PREFACE,
            kind: SETTINGS,
            goes_on: false,
            number: 1,
            last: 0,
            glitches: GlitchBudget::new(),
            is_flood: false,
        }
    }

    /// Whether the connection has sent more overhead frames than any honest client does.
    pub(super) const fn is_flood(&self) -> bool {
        self.is_flood
    }

    /// Records how much was sent to the client.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.glitches.wrote(bytes);
    }

    pub(super) fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let wanted =
                if self.left > 0 { self.left } else { FRAME_HEADER.saturating_sub(self.has) };
            let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
            bytes = rest;
            if self.left > 0 {
                self.left = self.left.saturating_sub(taken.len());
                continue;
            }
            if self.has == 0 && !self.goes_on {
                self.number = self.number.checked_add(1).unwrap_or(1);
            }
            let end = self.has.saturating_add(taken.len());
            if let Some(part) = self.header.get_mut(self.has..end) {
                part.copy_from_slice(taken);
            }
            self.has = end;
            if end == FRAME_HEADER {
                self.begin();
            }
        }
    }

    fn begin(&mut self) {
        let [a, b, c, kind, flags, stream @ ..] = self.header;
        self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        self.kind = kind;
        self.has = 0;
        match kind {
            HEADERS => {
                self.last = self.last.max(u32::from_be_bytes(stream) & STREAM);
                self.glitches.request();
            }
            // Floods of these are refused by hyper, which assembles them.
            CONTINUATION => {}
            DATA if self.left > 0 || flags & END_STREAM != 0 => self.glitches.body(self.left),
            _ => {
                self.is_flood |= self.glitches.add();
                match kind {
                    PING if flags & ACK == 0 => self.glitches.expect_ack(PING_ACK),
                    SETTINGS if flags & ACK == 0 => self.glitches.expect_ack(FRAME_HEADER),
                    _ => {}
                }
            }
        }
        if matches!(kind, HEADERS | CONTINUATION) {
            self.goes_on = flags & END_HEADERS == 0;
        }
    }

    pub(super) const fn last(&self) -> u32 {
        self.last
    }

    /// The number of a frame that has arrived only in part, unless it is part of a body. The next frame
    /// has another number.
    pub(super) fn unfinished(&self) -> Option<u32> {
        let is_within = self.left > 0 && self.kind != DATA;
        (self.goes_on || self.has > 0 || is_within).then_some(self.number)
    }
}

/// The length of the client preface.
const PREFACE: usize = 24;
/// The length of a frame header.
const FRAME_HEADER: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
/// The length of an answer to a ping.
const PING_ACK: usize = FRAME_HEADER + 8;
/// The mask of a stream number, without the reserved bit.
const STREAM: u32 = u32::MAX >> 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        frame.extend(vec![0; length.into()]);
        frame
    }

    #[test]
    fn what_is_complete_is_told_from_what_is_not() {
        let mut frames = FrameFollower::new();
        frames.follow(b"PRI * HTTP/2.0");
        assert!(frames.unfinished().is_some());
        frames.follow(b"\r\n\r\nSM\r\n\r\n");
        for (kind, flags, is_finished) in [
            (SETTINGS, 0, true),
            (HEADERS, END_HEADERS, true),
            (HEADERS, 0, false),
            (CONTINUATION, 0, false),
            (CONTINUATION, END_HEADERS, true),
            (DATA, 0, true),
        ] {
            for length in [0, 1, 200] {
                for byte in frame(kind, flags, length) {
                    frames.follow(&[byte]);
                }
                assert_eq!(frames.unfinished().is_none(), is_finished, "{kind} {flags} {length}");
            }
        }
    }

    #[test]
    fn a_body_in_part_is_no_head_in_part() {
        let mut frames = FrameFollower::new();
        frames.follow(&[0; PREFACE]);
        let data = frame(DATA, 0, 100);
        frames.follow(&data[..5]);
        assert!(frames.unfinished().is_some());
        frames.follow(&data[5..50]);
        assert!(frames.unfinished().is_none());
    }

    #[test]
    fn a_frame_is_as_long_as_its_three_bytes_say() {
        let mut frames = FrameFollower::new();
        frames.follow(&[0; PREFACE]);
        let mut long = vec![1, 2, 3, SETTINGS, 0, 0, 0, 0, 0];
        long.resize(FRAME_HEADER + 0x01_02_03, 0);
        frames.follow(&long[..long.len() - 1]);
        assert!(frames.unfinished().is_some(), "one byte is missing");
        frames.follow(&[0]);
        assert!(frames.unfinished().is_none());
        // The next bytes are the next frame.
        frames.follow(&[0, 0, 0, HEADERS, 0, 0, 0, 0, 7]);
        assert_eq!(frames.last(), 7);
    }

    #[test]
    fn the_last_stream_is_the_highest_that_a_request_has_begun() {
        let mut frames = FrameFollower::new();
        frames.follow(&[0; PREFACE]);
        for (kind, stream, last) in [
            (SETTINGS, [0, 0, 0, 9], 0),
            (HEADERS, [0, 0, 0, 5], 5),
            (DATA, [0, 0, 0, 9], 5),
            (HEADERS, [0, 0, 0, 3], 5),
            // The highest bit is reserved.
            (HEADERS, [0x80, 0, 1, 1], 0x101),
        ] {
            frames.follow(&[&[0, 0, 0, kind, END_HEADERS][..], &stream].concat());
            assert_eq!(frames.last(), last, "{kind} {stream:?}");
        }
    }

    #[test]
    fn whatever_begins_next_has_another_number() {
        let mut frames = FrameFollower::new();
        let first = frames.unfinished();
        frames.follow(&[0; PREFACE]);
        let mut numbers = vec![first];
        for _ in 0..3 {
            frames.follow(&frame(HEADERS, 0, 1)[..5]);
            numbers.push(frames.unfinished());
            frames.follow(&frame(HEADERS, END_HEADERS, 1)[5..]);
            assert!(frames.unfinished().is_some(), "its flags came in the first half");
            frames.follow(&frame(CONTINUATION, END_HEADERS, 1));
            assert_eq!(frames.unfinished(), None);
        }
        numbers.dedup();
        assert_eq!(numbers.len(), 4, "{numbers:?}");
    }

    #[test]
    fn a_head_keeps_its_number_however_often_it_goes_on() {
        let mut frames = FrameFollower::new();
        frames.follow(&[0; PREFACE]);
        frames.follow(&frame(HEADERS, 0, 10));
        let number = frames.unfinished();
        for _ in 0..5 {
            frames.follow(&frame(CONTINUATION, 0, 1));
            assert_eq!(frames.unfinished(), number);
        }
        frames.follow(&frame(CONTINUATION, END_HEADERS, 1));
        frames.follow(&frame(HEADERS, 0, 10));
        assert_ne!(frames.unfinished(), number);
    }

    #[test]
    fn attack_22_a_flood_of_frames_that_ask_for_nothing_is_seen() {
        // Empty DATA, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, and an unknown kind.
        for kind in [DATA, 2, 3, SETTINGS, PING, 7, 8, 99] {
            let mut frames = FrameFollower::new();
            frames.follow(&[0; PREFACE]);
            let flood = frame(kind, 0, 0).repeat(5_000);
            frames.follow(&flood[..FRAME_HEADER * 4_000]);
            assert!(!frames.is_flood(), "{kind}");
            frames.follow(&flood);
            assert!(frames.is_flood(), "{kind}");
        }
    }

    #[test]
    fn requests_and_bodies_are_no_flood() {
        let mut frames = FrameFollower::new();
        frames.follow(&[0; PREFACE]);
        for _ in 0..10_000 {
            frames.follow(&frame(HEADERS, END_HEADERS, 10));
            frames.follow(&frame(DATA, 0, 1));
            frames.follow(&frame(DATA, END_STREAM, 0));
            // Priority, cancellation, window.
            for kind in [2, 3, 8] {
                frames.follow(&frame(kind, 0, 4));
            }
        }
        assert!(!frames.is_flood());
    }
}
