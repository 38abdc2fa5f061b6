//! Slots of a Redis Cluster.

/// The number of slots.
pub(crate) const COUNT: u16 = 16_384;

/// The slot of a key: the CRC16 of its hash tag, or of the whole key if there is none.
pub(crate) fn of_key(key: &[u8]) -> u16 {
    crc16(tag(key)) % COUNT
}

/// The text between the first opening brace and the next closing one, unless it is empty.
fn tag(key: &[u8]) -> &[u8] {
    let find = |from: usize, byte: u8| {
        key.iter().skip(from).position(|other| *other == byte).map(|at| from + at)
    };
    let tag = find(0, b'{').and_then(|open| {
        let close = find(open + 1, b'}')?;
        key.get(open + 1..close)
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// CRC16-XMODEM, as Redis uses it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(of_key(b"{user1000}.following"), of_key(b"{user1000}.followers"));
        assert_eq!(of_key(b"foo{}{bar}"), crc16(b"foo{}{bar}") % COUNT);
        assert_eq!(of_key(b"foo{{bar}}zap"), crc16(b"{bar") % COUNT);
        assert_eq!(of_key(b"foo{bar}{zap}"), crc16(b"bar") % COUNT);
    }
}
