//! Small tools for texts, in one place for all of our crates.

/// The beginning of a text, for messages: at most this many characters, and a mark if there were more.
///
/// ```
/// use tidegate_core::text::brief;
///
/// assert_eq!(brief("short", 5), "short");
/// assert_eq!(brief("shorter", 5), "short…");
/// ```
pub fn brief(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
    }
}

/// The value of a hexadecimal digit, in either case.
#[inline]
pub const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// If a text begins with `%xx`: the byte that this stands for, and what comes after it.
///
/// ```
/// use tidegate_core::text::unescaped;
///
/// assert_eq!(unescaped(b"%2Fx"), Some((b'/', &b"x"[..])));
/// assert_eq!(unescaped(b"%2"), None);
/// ```
#[inline]
pub const fn unescaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let [b'%', high, low, rest @ ..] = text else { return None };
    match (hex_value(*high), hex_value(*low)) {
        (Some(high), Some(low)) => Some((high << 4 | low, rest)),
        _ => None,
    }
}

/// A number that consists of decimal digits only: no sign, no space, no other script.
///
/// ```
/// use tidegate_core::text::digits;
///
/// assert_eq!(digits(b"042"), Some(42));
/// assert_eq!(digits(b"+42"), None);
/// assert_eq!(digits(b""), None);
/// ```
pub fn digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}
