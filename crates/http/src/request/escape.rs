//! Decodes percent escapes, and folds names as lenient frameworks do.

use std::borrow::Cow;

use tidegate_limiter::text::{hex_value, unescaped};

/// Decodes `%xx`, and `+` as well if it stands for a space. Invalid escapes are kept as they are.
pub(super) fn decoded(text: &[u8], plus: u8) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let (mut decoded, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [byte, tail @ ..] = rest {
        let (byte, tail) = match byte {
            b'+' => (plus, tail),
            _ => unescaped(rest).unwrap_or((*byte, tail)),
        };
        decoded.push(byte);
        rest = tail;
    }
    Cow::Owned(decoded)
}

/// Whether every `%` is followed by two digits.
pub(super) fn is_well_escaped(text: &[u8]) -> bool {
    let mut parts = text.split(|byte| *byte == b'%');
    parts.next();
    parts.all(
        |part| matches!(part, [high, low, ..] if hex_value(*high).and(hex_value(*low)).is_some()),
    )
}

/// A name as lenient frameworks read it: without letter case, surrounding spaces, a suffix in brackets or
/// surrounding brackets, and with `_` for dots and spaces within.
pub(super) fn folded(name: &[u8]) -> Vec<u8> {
    let name = decoded(name, b' ');
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let name = name.get(..end).unwrap_or_default().trim_ascii();
    let name = name.strip_prefix(b"[").unwrap_or(name);
    let end = name.iter().position(|byte| matches!(byte, b'[' | b']')).unwrap_or(name.len());
    let name = name.get(..end).unwrap_or_default().trim_ascii();
    let fold = |byte: &u8| match byte {
        b'.' | b' ' => b'_',
        byte => byte.to_ascii_lowercase(),
    };
    name.iter().map(fold).collect()
}
