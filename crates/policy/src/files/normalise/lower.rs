//! Normalises values to lower case.

use super::NormalBytes;

/// The value in lower case: by Unicode's rules if it is text, otherwise only ASCII letters.
pub(super) fn lower(value: &[u8]) -> NormalBytes<'_> {
    if value.is_ascii() && !value.iter().any(u8::is_ascii_uppercase) {
        return NormalBytes::Borrowed(value);
    }
    NormalBytes::Owned(match std::str::from_utf8(value) {
        Ok(text) => {
            let mut lower = smallvec::SmallVec::new();
            for c in text.chars().flat_map(char::to_lowercase) {
                lower.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            lower
        }
        Err(_) => value.iter().map(u8::to_ascii_lowercase).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_by_unicode_and_bytes_by_ascii() {
        for (value, expected) in [
            (&b"alice"[..], &b"alice"[..]),
            (b"Alice@EXAMPLE.org", b"alice@example.org"),
            ("ÄRGER".as_bytes(), "ärger".as_bytes()),
            (b"A\xffB", b"a\xffb"),
            (b"", b""),
        ] {
            assert_eq!(lower(value).as_ref(), expected);
        }
    }
}
