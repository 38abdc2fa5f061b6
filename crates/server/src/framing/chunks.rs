//! The chunks of a request's body, followed but not decoded.

/// Where in its chunks a body is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunks {
    place: Place,
    /// For the current chunk: its size as far as it is known, then what is missing of it.
    left: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
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
pub(super) enum Step {
    Within,
    End,
    Broken,
}

impl Chunks {
    /// How many of the bytes belong to the body, and where they lead.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> (usize, Step) {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if self.place == Place::Data {
                let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
                self.left -= count as u64;
                at += count;
                if self.left == 0 {
                    self.place = Place::DataCr;
                }
                continue;
            }
            at += 1;
            match self.next(*byte) {
                Some(Place::Begin) if self.place == Place::EndLf => return (at, Step::End),
                Some(place) => self.place = place,
                None => return (at, Step::Broken),
            }
        }
        (at, Step::Within)
    }

    fn next(&mut self, byte: u8) -> Option<Place> {
        let place = match (self.place, byte) {
            (Place::Begin | Place::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = u64::from(char::from(byte).to_digit(16)?);
                let before = if self.place == Place::Begin { 0 } else { self.left };
                self.left = before.checked_mul(16)?.checked_add(digit)?;
                Place::Size
            }
            (Place::Size, b';' | b' ' | b'\t') => Place::Extension,
            (Place::Size | Place::Extension, b'\r') => Place::SizeLf,
            (Place::Extension, b'\n') => return None,
            (Place::Extension, _) => Place::Extension,
            (Place::SizeLf, b'\n') if self.left == 0 => Place::Line,
            (Place::SizeLf, b'\n') => Place::Data,
            (Place::DataCr, b'\r') => Place::DataLf,
            (Place::DataLf, b'\n') => Place::Begin,
            (Place::Line, b'\r') => Place::EndLf,
            (Place::Line | Place::Trailer, b'\n') => return None,
            (Place::Trailer, b'\r') => Place::TrailerLf,
            (Place::Line | Place::Trailer, _) => Place::Trailer,
            (Place::TrailerLf, b'\n') => Place::Line,
            (Place::EndLf, b'\n') => Place::Begin,
            _ => return None,
        };
        Some(place)
    }
}
