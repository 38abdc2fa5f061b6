//! Follows the chunked encoding of a request's body without decoding it.

use tidegate::text::hex_value;

/// The position in a chunked body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkFollower {
    state: ChunkState,
    /// The size of the current chunk as far as it was read, then the bytes of it that are still missing.
    left: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkState {
    /// Before a size.
    #[default]
    Begin,
    Size,
    /// The rest of the line after a size.
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the beginning of a line after the last chunk.
    Line,
    Trailer,
    TrailerLf,
    EndLf,
}

/// The state of a body after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkStep {
    Within,
    End,
    Broken,
}

impl ChunkFollower {
    /// Reads some bytes. Returns how many belong to the body, and the state after them.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> (usize, ChunkStep) {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if self.state == ChunkState::Data {
                let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
                self.left -= count as u64;
                at += count;
                if self.left == 0 {
                    self.state = ChunkState::DataCr;
                }
                continue;
            }
            at += 1;
            match self.next(*byte) {
                Some(ChunkState::Begin) if self.state == ChunkState::EndLf => {
                    return (at, ChunkStep::End);
                }
                Some(state) => self.state = state,
                None => return (at, ChunkStep::Broken),
            }
        }
        (at, ChunkStep::Within)
    }

    fn next(&mut self, byte: u8) -> Option<ChunkState> {
        let state = match (self.state, byte) {
            (ChunkState::Begin | ChunkState::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = u64::from(hex_value(byte)?);
                let before = if self.state == ChunkState::Begin { 0 } else { self.left };
                self.left = before.checked_mul(16)?.checked_add(digit)?;
                ChunkState::Size
            }
            (ChunkState::Size, b';' | b' ' | b'\t') => ChunkState::Extension,
            (ChunkState::Size | ChunkState::Extension, b'\r') => ChunkState::SizeLf,
            (ChunkState::Extension, b'\n') => return None,
            (ChunkState::Extension, _) => ChunkState::Extension,
            (ChunkState::SizeLf, b'\n') if self.left == 0 => ChunkState::Line,
            (ChunkState::SizeLf, b'\n') => ChunkState::Data,
            (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
            (ChunkState::DataLf, b'\n') => ChunkState::Begin,
            (ChunkState::Line, b'\r') => ChunkState::EndLf,
            (ChunkState::Line | ChunkState::Trailer, b'\n') => return None,
            (ChunkState::Trailer, b'\r') => ChunkState::TrailerLf,
            (ChunkState::Line | ChunkState::Trailer, _) => ChunkState::Trailer,
            (ChunkState::TrailerLf, b'\n') => ChunkState::Line,
            (ChunkState::EndLf, b'\n') => ChunkState::Begin,
            _ => return None,
        };
        Some(state)
    }
}
