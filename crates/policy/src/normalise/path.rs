//! Paths in the normal form of RFC 3986: one resource, one spelling.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Normal;

/// The form in which paths are compared and counted: without query, dot segments, empty segments
/// and trailing slash, and with escapes only where needed. A proxy should also forward this form,
/// so that nobody is counted for one path and served another.
///
/// ```
/// use tidegate::path_in_normal_form;
///
/// assert_eq!(&*path_in_normal_form(b"//a/../%6Cogin/?next=/"), b"/login");
/// ```
pub fn path_in_normal_form(path: &[u8]) -> Cow<'_, [u8]> {
    match normal_path(path) {
        Normal::Same(path) => Cow::Borrowed(path),
        Normal::Other(path) => Cow::Owned(path.into_vec()),
    }
}

/// Without query and fragment; escapes only where needed, and in upper case; no empty segments, no
/// dot segments, no trailing slash. An encoded slash stays encoded: it is data.
pub(crate) fn normal_path(value: &[u8]) -> Normal<'_> {
    let end = value.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(value.len());
    let path = value.get(..end).unwrap_or_default();
    if is_normal(path) { Normal::Same(path) } else { Normal::Other(normalised(path)) }
}

/// What the fast path can vouch for.
fn is_normal(path: &[u8]) -> bool {
    let mut before = 0;
    for &byte in path {
        // A dot after a slash may be a dot segment; the slow path looks more closely.
        if byte == b'%' || (before == b'/' && matches!(byte, b'/' | b'.')) {
            return false;
        }
        before = byte;
    }
    path.first() == Some(&b'/') && (path.len() == 1 || before != b'/')
}

fn normalised(path: &[u8]) -> SmallVec<[u8; 128]> {
    let mut decoded: SmallVec<[u8; 128]> = SmallVec::new();
    let mut rest = path;
    while let [byte, tail @ ..] = rest {
        rest = match (byte, escape(rest)) {
            (b'%', Some((value, tail))) if is_unreserved(value) => {
                decoded.push(value);
                tail
            }
            (b'%', Some((value, tail))) => {
                decoded.extend([b'%', hex_digit(value >> 4), hex_digit(value & 15)]);
                tail
            }
            // Not an escape, but what follows may make it one: `%%341` is not `%41`.
            (b'%', None) => {
                decoded.extend_from_slice(b"%25");
                tail
            }
            _ => {
                decoded.push(*byte);
                tail
            }
        };
    }
    without_dots(&decoded)
}

fn without_dots(path: &[u8]) -> SmallVec<[u8; 128]> {
    let mut normal: SmallVec<[u8; 128]> = SmallVec::new();
    for segment in path.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => {
                let parent = normal.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                normal.truncate(parent);
            }
            _ => {
                normal.push(b'/');
                normal.extend_from_slice(segment);
            }
        }
    }
    if normal.is_empty() {
        normal.push(b'/');
    }
    normal
}

/// The byte that `%xx` stands for, and what comes after it.
fn escape(text: &[u8]) -> Option<(u8, &[u8])> {
    let [b'%', high, low, rest @ ..] = text else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some((digit(*high)? << 4 | digit(*low)?, rest))
}

fn hex_digit(value: u8) -> u8 {
    char::from_digit(u32::from(value), 16).map_or(b'0', |digit| digit.to_ascii_uppercase() as u8)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normal(path: &str) -> String {
        String::from_utf8_lossy(normal_path(path.as_bytes()).as_ref()).into_owned()
    }

    #[test]
    fn every_spelling_of_a_path_is_one() {
        for spelling in [
            "/login",
            "//login",
            "/login/",
            "/./login",
            "/a/../login",
            "/%6Cogin",
            "/%6cogin",
            "/login?next=/",
            "/login#top",
            "/%2e/login",
            "/x/%2E%2e/login",
            "login",
            "/login//",
            "/../../login",
            "/login/.",
            "/login/x/..",
        ] {
            assert_eq!(normal(spelling), "/login", "{spelling}");
        }
        for (path, expected) in [
            ("", "/"),
            ("/", "/"),
            ("//", "/"),
            ("/.", "/"),
            ("/..", "/"),
            ("?x", "/"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%2", "/a%252"),
            ("/100%", "/100%25"),
            ("/%zz", "/%25zz"),
            ("/%%341", "/%2541"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a/.../b", "/a/.../b"),
            ("/Login", "/Login"),
            ("/%e2%82%ac", "/%E2%82%AC"),
            ("/a%20b", "/a%20b"),
        ] {
            assert_eq!(normal(path), expected, "{path}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_normal_form_is_its_own(path in "[/.%a2eEfF?x]{0,12}") {
            let once = normal(&path);
            prop_assert_eq!(normal(&once), once);
        }

        #[test]
        fn anything_can_be_asked(bytes: Vec<u8>) {
            let normal = normal_path(&bytes);
            prop_assert!(normal.as_ref().starts_with(b"/"));
        }
    }
}
