//! The chunks of a request's body, followed but not decoded.

/// Where in its chunks a body is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkFollower {
    place: ChunkState,
    /// For the current chunk: its size as far as it is known, then what is missing of it.
    left: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkState {
    /// Before a size.
    #[default]
    Begin,
    Size,
    /// What follows a size on its line.
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

/// Where the bytes have led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkStep {
    Within,
    End,
    Broken,
}

impl ChunkFollower {
    /// How many of the bytes belong to the body, and where they lead.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> (usize, ChunkStep) {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if self.place == ChunkState::Data {
                let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
                self.left -= count as u64;
                at += count;
                if self.left == 0 {
                    self.place = ChunkState::DataCr;
                }
                continue;
            }
            at += 1;
            match self.next(*byte) {
                Some(ChunkState::Begin) if self.place == ChunkState::EndLf => {
                    return (at, ChunkStep::End);
                }
                Some(place) => self.place = place,
                None => return (at, ChunkStep::Broken),
            }
        }
        (at, ChunkStep::Within)
    }

    fn next(&mut self, byte: u8) -> Option<ChunkState> {
        let place = match (self.place, byte) {
            (ChunkState::Begin | ChunkState::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = u64::from(char::from(byte).to_digit(16)?);
                let before = if self.place == ChunkState::Begin { 0 } else { self.left };
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
        Some(place)
    }
}
