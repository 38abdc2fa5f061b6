//! Whom a request is for.

use std::borrow::Cow;

/// One name for a host, however it is written: in lower case, without a port and without the dot at
/// its end.
///
/// ```
/// use tidegate_http::host_name;
///
/// assert_eq!(&*host_name(b"Example.com.:8080"), b"example.com");
/// ```
pub fn host_name(text: &[u8]) -> Cow<'_, [u8]> {
    // A colon within brackets is part of an address.
    let end = text.iter().rposition(|byte| matches!(byte, b':' | b']'));
    let name = match end {
        Some(end) if text.get(end) == Some(&b':') => text.get(..end).unwrap_or(text),
        _ => text,
    };
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.iter().any(u8::is_ascii_uppercase) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_name() {
        for text in ["example.com", "EXAMPLE.com", "example.com:8080", "Example.Com.:443"] {
            assert_eq!(host_name(text.as_bytes()).as_ref(), b"example.com", "{text}");
        }
        assert_eq!(host_name(b"[::1]:80").as_ref(), b"[::1]");
        assert_eq!(host_name(b"[::1]").as_ref(), b"[::1]");
        assert_eq!(host_name(b":").as_ref(), b"");
    }
}
