//! Writes numbers as the protocol frames them: a byte for their kind, digits, and the end of the line.
//!
//! The digits are written directly to their final place. Writing them to a temporary buffer byte by byte
//! and then copying it would stall the processor, which cannot forward such small writes to a larger read.

/// The length of `:-9223372036854775808\r\n`, and of what is written beyond its end for speed.
pub(in crate::transport::resp) const ROOM: usize = 23 + EIGHT;

/// Writes `kind`, the number and the end of the line at the beginning of `room`, which must have at least
/// [`ROOM`] bytes. Returns how many bytes that took; bytes after them can be overwritten.
#[inline]
pub(in crate::transport::resp) fn write_line(room: &mut [u8], kind: u8, number: i64) -> usize {
    let Some(room) = room.first_chunk_mut::<ROOM>() else { return 0 };
    room[0] = kind;
    // Most numbers in replies have a single digit.
    if let digit @ 0..=9 = number {
        room[1..4].copy_from_slice(&[b'0' + digit as u8, b'\r', b'\n']);
        return 4;
    }
    room[1] = b'-';
    let start = if number < 0 { 2 } else { 1 };
    let end = write_digits(room, start, number.unsigned_abs());
    room[end..end + 2].copy_from_slice(b"\r\n");
    end + 2
}

/// Writes a number at `start`, and returns where it ends.
#[inline]
fn write_digits(room: &mut [u8; ROOM], start: usize, number: u64) -> usize {
    if number >= BEYOND_EIGHT {
        return write_many_digits(room, start, number);
    }
    let digits = digits(number);
    // Skip all leading zeros, but not the last digit.
    let zeros = (digits.trailing_zeros() / 8).min(7);
    put(room, start, (digits | ASCII) >> (8 * zeros));
    start + EIGHT - zeros as usize
}

fn write_many_digits(room: &mut [u8; ROOM], start: usize, number: u64) -> usize {
    let start = write_digits(room, start, number / BEYOND_EIGHT);
    put(room, start, digits(number % BEYOND_EIGHT) | ASCII);
    start + EIGHT
}

/// The eight digits of a number below [`BEYOND_EIGHT`], one per byte, the first digit in the lowest byte.
/// Splits the number into halves, quarters and eighths, and computes all parts of a step together. No
/// part can overflow into the next.
#[inline]
const fn digits(number: u64) -> u64 {
    let halves = (number / 10_000) | ((number % 10_000) << 32);
    // Divides by 100 and by 10: 10,486 is nearly 2^20 / 100, and 103 is nearly 2^10 / 10. That is exact
    // for numbers of this size.
    let hundreds = (halves.wrapping_mul(10_486) >> 20) & 0x7f_0000_007f;
    let quarters = hundreds | (halves.wrapping_sub(hundreds.wrapping_mul(100)) << 16);
    let tens = (quarters.wrapping_mul(103) >> 10) & 0x0f_000f_000f_000f;
    tens | (quarters.wrapping_sub(tens.wrapping_mul(10)) << 8)
}

#[inline]
fn put(room: &mut [u8; ROOM], start: usize, digits: u64) {
    if let Some(place) = room.get_mut(start..start + EIGHT) {
        place.copy_from_slice(&digits.to_le_bytes());
    }
}

const BEYOND_EIGHT: u64 = 100_000_000;
const EIGHT: usize = size_of::<u64>();
const ASCII: u64 = 0x3030_3030_3030_3030;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(number: i64) -> String {
        let mut room = [b'x'; ROOM + 1];
        let length = write_line(&mut room, b':', number);
        assert_eq!(room[ROOM], b'x');
        String::from_utf8_lossy(&room[..length]).into_owned()
    }

    #[test]
    fn every_length_is_written() {
        let powers = (0..19).map(|zeros| 10_i64.pow(zeros));
        let around = powers.flat_map(|power| [power - 1, power, power + 1, -power, 1 - power]);
        for number in around.chain([i64::MAX, i64::MIN]) {
            assert_eq!(written(number), format!(":{number}\r\n"));
        }
    }

    #[test]
    fn all_digits_are_found() {
        for number in (0..100_000_000).step_by(997).chain([99_999_999]) {
            let expected = format!("{number:08}");
            assert_eq!((digits(number) | ASCII).to_le_bytes(), expected.as_bytes());
        }
        for number in 0..10_000 {
            let expected = format!("{number:04}{number:04}");
            assert_eq!((digits(number * 10_001) | ASCII).to_le_bytes(), expected.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn any_number_is_written(number: i64, shift in 0..63) {
            let number = number >> shift;
            prop_assert_eq!(written(number), format!(":{number}\r\n"));
        }
    }
}
