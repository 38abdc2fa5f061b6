//! Paths in the normal form of RFC 3986: one resource, one spelling.

use std::borrow::Cow;

use smallvec::SmallVec;
use tidegate_core::text::unescaped;

use super::NormalBytes;
use crate::files::settings::PathCase;

/// The form in which paths are compared and counted: without query, dot segments, empty segments
/// and trailing slash, and every character in one spelling. A proxy should also forward this form,
/// so that a request is never counted for one path and served another.
///
/// Characters that may stand in a path stand for themselves, and all others are escaped. An escaped
/// slash, percent sign or semicolon stays escaped: decoding it would change what the path means.
///
/// ```
/// use tidegate::path_in_normal_form;
///
/// assert_eq!(&*path_in_normal_form(b"//a/../%6Cogin/?next=/"), b"/login");
/// assert_eq!(&*path_in_normal_form(b"/users/%40me/{x}"), b"/users/@me/%7Bx%7D");
/// ```
pub fn path_in_normal_form(path: &[u8]) -> Cow<'_, [u8]> {
    match normal_path(path, PathCase::Exact) {
        NormalBytes::Borrowed(path) => Cow::Borrowed(path),
        NormalBytes::Owned(path) => Cow::Owned(path.into_vec()),
    }
}

/// The normal form of [`path_in_normal_form`], in lower case if letter case does not matter.
pub(crate) fn normal_path(value: &[u8], case: PathCase) -> NormalBytes<'_> {
    let end = value.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(value.len());
    let path = value.get(..end).unwrap_or_default();
    if is_normal(path, case) {
        return NormalBytes::Borrowed(path);
    }
    let mut normal = without_dots(&in_one_spelling(path));
    if case == PathCase::Ignore {
        normal.make_ascii_lowercase();
    }
    NormalBytes::Owned(normal)
}

/// Whether a path is certainly in normal form; `false` may only mean that the slow path must look.
fn is_normal(path: &[u8], case: PathCase) -> bool {
    let mut before = 0;
    for &byte in path {
        // A dot after a slash may be a dot segment, which the slow path decides.
        let is_odd = !stands_for_itself(byte) || (before == b'/' && matches!(byte, b'/' | b'.'));
        if is_odd || (case == PathCase::Ignore && byte.is_ascii_uppercase()) {
            return false;
        }
        before = byte;
    }
    path.first() == Some(&b'/') && (path.len() == 1 || before != b'/')
}

/// Decodes the characters that are allowed in a path, and escapes all others.
pub(crate) fn in_one_spelling(path: &[u8]) -> SmallVec<[u8; 128]> {
    let mut spelled: SmallVec<[u8; 128]> = SmallVec::new();
    let mut rest = path;
    while let [byte, tail @ ..] = rest {
        let (value, is_plain, tail) = match unescaped(rest) {
            Some((value, tail)) => {
                (value, stands_for_itself(value) && !matches!(value, b'/' | b';'), tail)
            }
            // A percent sign without digits is not an escape: decoders leave it as it is.
            None => (*byte, stands_for_itself(*byte), tail),
        };
        if is_plain {
            spelled.push(value);
        } else {
            spelled.extend([b'%', hex_digit(value >> 4), hex_digit(value & 15)]);
        }
        rest = tail;
    }
    spelled
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

fn hex_digit(value: u8) -> u8 {
    char::from_digit(u32::from(value), 16).map_or(b'0', |digit| digit.to_ascii_uppercase() as u8)
}

/// Whether a byte is allowed in a path unescaped: a slash, or a `pchar` of RFC 3986.
const fn stands_for_itself(byte: u8) -> bool {
    PLAIN[byte as usize]
}

const PLAIN: [bool; 256] = {
    let (mut plain, others) = ([false; 256], b"/-._~!$&'()*+,;=:@");
    let mut byte = 0;
    while byte < 256 {
        plain[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        plain[others[at] as usize] = true;
        at += 1;
    }
    plain
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normal(path: &str) -> String {
        String::from_utf8_lossy(normal_path(path.as_bytes(), PathCase::Exact).as_ref()).into_owned()
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
            ("/a b", "/a%20b"),
            ("/v1/mail%3asend", "/v1/mail:send"),
            ("/%21%24%26%27%28%29%2A%2B%2C%3D%3A%40", "/!$&'()*+,=:@"),
            ("/\"<>^`{|}\\", "/%22%3C%3E%5E%60%7B%7C%7D%5C"),
            ("/\u{20ac}", "/%E2%82%AC"),
            ("/a;b", "/a;b"),
            ("/a%3bb", "/a%3Bb"),
            ("/a%25%3f%23", "/a%25%3F%23"),
        ] {
            assert_eq!(normal(path), expected, "{path}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn attack_03_a_normal_form_is_its_own(path in "[/.%a2eEfF?x;4035AB:@{ ]{0,12}") {
            let once = normal(&path);
            prop_assert_eq!(normal(&once), once);
        }

        /// Two spellings that are one path to a service that decodes first and then resolves dots have
        /// one normal form here. The exceptions are refused elsewhere: escaped slashes, backslashes and
        /// semicolons.
        #[test]
        fn attack_03_spellings_that_a_service_reads_alike_have_one_normal_form(
            path in "(/[a;:@.{ ]{0,3}){1,4}",
            choices in prop::collection::vec(0_u8..4, 32),
        ) {
            let mut other = String::new();
            for (at, byte) in path.bytes().enumerate() {
                match (byte, choices.get(at).copied().unwrap_or_default()) {
                    (b'/' | b';', _) | (_, 0 | 1) => other.push(char::from(byte)),
                    (_, 2) => other.push_str(&format!("%{byte:02X}")),
                    (_, _) => other.push_str(&format!("%{byte:02x}")),
                }
            }
            prop_assert_eq!(normal(&path), normal(&other), "{} {}", path, other);
        }

        #[test]
        fn attack_03_letter_case_matters_only_where_it_is_said(path in "(/[aA%4cCeE.1]{0,6}){1,3}") {
            let lower = normal_path(path.as_bytes(), PathCase::Ignore).as_ref().to_vec();
            let upper = path.to_ascii_uppercase();
            let upper = normal_path(upper.as_bytes(), PathCase::Ignore).as_ref().to_vec();
            prop_assert_eq!(&lower, &upper);
            let again = normal_path(&lower, PathCase::Ignore).as_ref().to_vec();
            prop_assert_eq!(again, lower);
        }

        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let normal = normal_path(&bytes, PathCase::Exact);
            prop_assert!(normal.as_ref().starts_with(b"/"));
        }
    }
}
