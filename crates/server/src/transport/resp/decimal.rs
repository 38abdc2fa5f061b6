//! Numbers as the protocol writes them: a sign for what they are, digits, and the end of the line.
//!
//! Written where they stay. Digits that were first put somewhere else would have to be waited for: a
//! processor that copies bytes which it has just written one by one stalls.

/// `:-9223372036854775808\r\n`
pub(super) const LONGEST_LINE: usize = 23;

/// Writes `kind`, the number and the end of the line at the beginning of `room`, which has at least
/// [`LONGEST_LINE`] bytes. Returns how many they are.
#[inline]
pub(super) fn write_line(room: &mut [u8], kind: u8, number: i64) -> usize {
    let Some(room) = room.first_chunk_mut::<LONGEST_LINE>() else { return 0 };
    room[0] = kind;
    // What most answers are made of.
    if let digit @ 0..=9 = number {
        room[1..4].copy_from_slice(&[b'0' + digit as u8, b'\r', b'\n']);
        return 4;
    }
    let mut start = 1;
    if number < 0 {
        room[1] = b'-';
        start = 2;
    }
    let magnitude = number.unsigned_abs();
    let end = start + magnitude.checked_ilog10().map_or(1, |most| most as usize + 1);
    write_digits(&mut room[start..end], magnitude);
    room[end..end + 2].copy_from_slice(b"\r\n");
    end + 2
}

/// Fills `room` with the last digits of a number, two at a time.
#[inline]
fn write_digits(room: &mut [u8], mut number: u64) {
    let mut pairs = room.rchunks_exact_mut(2);
    for pair in &mut pairs {
        pair.copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if let [digit] = pairs.into_remainder() {
        *digit = b'0' + (number % 10) as u8;
    }
}

/// From `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(number: i64) -> String {
        let mut room = [b'x'; LONGEST_LINE + 1];
        let length = write_line(&mut room, b':', number);
        assert_eq!(room[LONGEST_LINE], b'x');
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

    proptest! {
        #[test]
        fn any_number_is_written(number: i64, shift in 0..63) {
            let number = number >> shift;
            prop_assert_eq!(written(number), format!(":{number}\r\n"));
        }
    }
}
