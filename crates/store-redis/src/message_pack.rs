//! Writes the part of MessagePack that the scripts' arguments need: lists of whole numbers and bytes.

/// Begins a list of `length` values.
pub(crate) fn list(out: &mut Vec<u8>, length: usize) {
    match length {
        0..16 => out.push(0x90 | length as u8),
        16..0x1_0000 => {
            out.push(0xdc);
            out.extend((length as u16).to_be_bytes());
        }
        _ => {
            out.push(0xdd);
            out.extend((length as u32).to_be_bytes());
        }
    }
}

/// Nil, in place of an empty list.
pub(crate) fn nothing(out: &mut Vec<u8>) {
    out.push(0xc0);
}

/// A number below 2^53: Lua cannot represent all larger ones exactly.
pub(crate) fn number(out: &mut Vec<u8>, number: u64) {
    match number {
        0..0x80 => out.push(number as u8),
        0x80..0x1_0000 => {
            out.push(0xcd);
            out.extend((number as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(0xce);
            out.extend((number as u32).to_be_bytes());
        }
        _ => {
            out.push(0xcf);
            out.extend(number.to_be_bytes());
        }
    }
}

/// A small negative number.
pub(crate) fn negative(out: &mut Vec<u8>, number: i8) {
    out.push(number.max(-32) as u8);
}

/// False, in place of bytes.
pub(crate) fn no(out: &mut Vec<u8>) {
    out.push(0xc2);
}

/// Bytes, which must be fewer than 2^32.
pub(crate) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        short @ 0..0x1_0000 => {
            out.push(0xda);
            out.extend((short as u16).to_be_bytes());
        }
        long => {
            out.push(0xdb);
            out.extend((long as u32).to_be_bytes());
        }
    }
    out.extend_from_slice(bytes);
}
