//! Reads paths in one spelling, and refuses those that services read in two ways.

use std::borrow::Cow;

use tidegate_limiter::config::{PathParameters, RequestRules};
use tidegate_limiter::path_in_normal_form;
use tidegate_limiter::text::unescaped;

use super::escape::decoded;
use crate::RequestFault;

/// A path in one spelling, for matching and counting, and as it is forwarded. The two differ only where
/// parameters are ignored.
///
/// ```
/// use tidegate_http::RequestPath;
/// use tidegate::config::RequestRules;
///
/// let rules = RequestRules::default();
/// assert_eq!(RequestPath::read(b"//a/%62/../%3A/", &rules)?.counted(), b"/a/:");
/// assert!(RequestPath::read(b"/a%2Fb", &rules).is_err());
/// # Ok::<(), tidegate_http::RequestFault>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPath<'r> {
    counted: Cow<'r, [u8]>,
    forwarded: Option<Cow<'r, [u8]>>,
    ends_in_slash: bool,
}

impl<'r> RequestPath<'r> {
    /// Reads a path, and refuses it if services are known to read it in another way. An empty path is `/`.
    pub fn read(raw: &'r [u8], rules: &RequestRules) -> Result<Self, RequestFault> {
        let traits = PathTraits::of(raw, rules)?;
        let ends_in_slash = raw.last() == Some(&b'/');
        let parameters = rules.on_path_parameters();
        if !traits.has_parameters || parameters == PathParameters::Keep {
            return Ok(Self { counted: path_in_normal_form(raw), forwarded: None, ends_in_slash });
        }
        let bare = without_parameters(raw);
        let ends_in_slash = bare.last() == Some(&b'/');
        let counted = Cow::Owned(path_in_normal_form(&bare).into_owned());
        let forwarded = (parameters == PathParameters::Ignore).then(|| path_in_normal_form(raw));
        // Services differ in whether a segment of only parameters is removed before or after `..`.
        let counts_otherwise =
            |path: &[u8]| path_in_normal_form(&without_parameters(path)) != counted;
        if forwarded.as_deref().is_some_and(counts_otherwise) {
            return fault("has a segment with only parameters before a dot segment");
        }
        Ok(Self { counted, forwarded, ends_in_slash })
    }

    /// The path for matching and counting.
    pub fn counted(&self) -> &[u8] {
        &self.counted
    }

    /// The path for matching and counting, owned.
    pub fn into_counted(self) -> Cow<'r, [u8]> {
        self.counted
    }

    /// The path to forward, without a trailing slash.
    pub fn forwarded(&self) -> &[u8] {
        self.forwarded.as_ref().unwrap_or(&self.counted)
    }

    /// Whether the path has a trailing slash, which can matter to a service.
    pub const fn ends_in_slash(&self) -> bool {
        self.ends_in_slash
    }
}

/// What a scan of the bytes of a path has found.
struct PathTraits {
    has_parameters: bool,
}

impl PathTraits {
    fn of(path: &[u8], rules: &RequestRules) -> Result<Self, RequestFault> {
        if !path.is_empty() && path.first() != Some(&b'/') {
            return fault("does not begin with a slash");
        }
        let keeps_slashes = rules.keeps_encoded_slashes();
        let refuses_parameters = rules.on_path_parameters() == PathParameters::Refuse;
        let (mut rest, mut has_parameters, mut is_ascii) = (path, false, true);
        // The number of dots in the segment so far, if it has nothing else.
        let mut dots = Some(0);
        while let [byte, tail @ ..] = rest {
            let (value, is_escaped, tail) = match byte {
                b'%' => match unescaped(rest) {
                    Some((value, after)) => (value, true, after),
                    None => return fault(ESCAPE),
                },
                byte if byte.is_ascii_graphic() => (*byte, false, tail),
                _ => return fault("has bytes that must be escaped"),
            };
            rest = tail;
            match value {
                b'/' if !is_escaped => {
                    dots = Some(0);
                    continue;
                }
                b'/' | b'\\' if !keeps_slashes => {
                    return fault("has an encoded slash, or a backslash");
                }
                b';' => {
                    if matches!(dots, Some(1 | 2)) {
                        return fault("has dots before a semicolon");
                    }
                    if is_escaped != refuses_parameters {
                        return fault(SEMICOLON);
                    }
                    has_parameters |= !is_escaped;
                }
                0..=31 | 127 => return fault("has a control character"),
                128.. => is_ascii = false,
                _ => {}
            }
            dots = dots.filter(|_| value == b'.').map(|count: usize| count + 1);
        }
        if !is_ascii && std::str::from_utf8(&decoded(path, b'+')).is_err() {
            // Many services replace all invalid bytes by the same mark, so different paths become equal.
            return fault("is not UTF-8");
        }
        Ok(Self { has_parameters })
    }
}

const fn fault<T>(why: &'static str) -> Result<T, RequestFault> {
    Err(RequestFault::Path(why))
}

/// Each segment up to its first semicolon.
fn without_parameters(path: &[u8]) -> Vec<u8> {
    let mut bare = Vec::with_capacity(path.len());
    for (number, segment) in path.split(|byte| *byte == b'/').enumerate() {
        if number > 0 {
            bare.push(b'/');
        }
        bare.extend(segment.iter().take_while(|byte| **byte != b';'));
    }
    bare
}

const ESCAPE: &str = "has a % without two hexadecimal digits after it";
const SEMICOLON: &str =
    "has a semicolon in a spelling that is not expected here: see path_parameters";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(path: &str, rules: &RequestRules) -> Option<(String, String)> {
        let read = RequestPath::read(path.as_bytes(), rules).ok()?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Some((text(read.counted()), text(read.forwarded())))
    }

    fn one(path: &str) -> Option<(String, String)> {
        Some((path.to_owned(), path.to_owned()))
    }

    #[test]
    fn attack_03_what_others_may_read_otherwise_is_refused() {
        let rules = RequestRules::default();
        for path in [
            "/a%2fb",
            "/a%5Cb",
            "/a\\b",
            "/a%00",
            "/a%0a",
            "/a%7f",
            "/a%",
            "/a%2",
            "/a%zz",
            "*",
            "a",
            "/a b",
            "/\u{e9}",
            "/login;x",
            "/;a/login",
            "/x/..;/login",
            "/x/%2e.;a=b/login",
            "/.;/a",
            "/x/..%3B/login",
            "/x/%2E%2e%3b/a",
        ] {
            assert_eq!(read(path, &rules), None, "{path}");
        }
        assert_eq!(read("/a%2fb", &rules.keep_encoded_slashes()), one("/a%2Fb"));
        assert_eq!(read("/a%3bb", &rules), one("/a%3Bb"));
        assert_eq!(read("", &rules), one("/"));
        assert_eq!(read("/v1/mail%3Asend", &rules), one("/v1/mail:send"));
        assert_eq!(read("/{x}", &rules), one("/%7Bx%7D"));
    }

    #[test]
    fn attack_03_each_reading_of_a_semicolon_has_one_spelling() {
        use PathParameters::{Ignore, Keep, Strip};
        let rules = |parameters| RequestRules::default().path_parameters(parameters);
        for parameters in [Strip, Ignore, Keep] {
            for path in ["/a%3Bb", "/x/..;/login", "/x/.;/login", "/x/..%3b/login"] {
                assert_eq!(read(path, &rules(parameters)), None, "{path} {parameters:?}");
            }
        }
        assert_eq!(read("/login;x/;y", &rules(Strip)), one("/login"));
        let both = Some(("/login".to_owned(), "/login;x/;y".to_owned()));
        assert_eq!(read("/login;x/;y", &rules(Ignore)), both);
        assert_eq!(read("/login;x", &rules(Keep)), one("/login;x"));
        assert_eq!(read("/...;x", &rules(Strip)), one("/..."));
    }

    /// The path as a service reads it that decodes first and then resolves dots, as most do.
    fn decoding(path: &str) -> Vec<Vec<u8>> {
        resolved(&super::super::escape::decoded(path.as_bytes(), b'+'))
    }

    /// The path as a servlet reads it: it removes parameters first.
    fn servlet(path: &str) -> Vec<Vec<u8>> {
        let bare = without_parameters(path.as_bytes());
        resolved(&super::super::escape::decoded(&bare, b'+'))
    }

    fn resolved(path: &[u8]) -> Vec<Vec<u8>> {
        let mut segments = Vec::new();
        for segment in path.split(|byte| matches!(byte, b'/' | b'\\')) {
            match segment {
                b"" | b"." => {}
                b".." => {
                    segments.pop();
                }
                other => segments.push(other.to_vec()),
            }
        }
        segments
    }

    #[test]
    fn attack_03_a_segment_of_parameters_alone_hides_no_path() {
        let rules = RequestRules::default().path_parameters(PathParameters::Ignore);
        for path in ["/login/;p/..", "/api/;p/../login"] {
            assert!(RequestPath::read(path.as_bytes(), &rules).is_err(), "{path}");
        }
        let path = RequestPath::read(b"/a;x/b;y/../c;z", &rules).unwrap();
        assert_eq!((path.counted(), path.forwarded()), (&b"/a/c"[..], &b"/a;x/c;z"[..]));
    }

    /// Turns a path into the segments that a service reads.
    type PathReader = fn(&str) -> Vec<Vec<u8>>;

    fn spelling() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec![
            "/", "/", "/", "/", "a", "a", ".", ".", "..", "..", ":", ";", ";", "%61", "%2e", "%2E",
            "%2f", "%5C", "%3A", "%3b", "{", "%7b",
        ]);
        prop::collection::vec(part, 0..9).prop_map(|parts| format!("/{}", parts.concat()))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn attack_03_what_a_service_serves_alike_is_counted_alike_or_refused(
            one in spelling(),
            other in spelling(),
        ) {
            use PathParameters::{Ignore, Keep, Refuse, Strip};
            let rules = |parameters| RequestRules::default().path_parameters(parameters);
            let services: [(_, PathReader); 5] = [
                (Refuse, decoding),
                (Refuse, servlet),
                (Strip, servlet),
                (Ignore, servlet),
                (Keep, decoding),
            ];
            for (parameters, serves) in services {
                let (a, b) = (read(&one, &rules(parameters)), read(&other, &rules(parameters)));
                let (Some(a), Some(b)) = (a, b) else { continue };
                let alike = serves(&one) == serves(&other);
                prop_assert_eq!(alike, a.0 == b.0, "{:?} {} {}", parameters, one, other);
                // The forwarded path is read like the original, except for what was stripped.
                prop_assert_eq!(serves(&a.1), serves(&one), "{:?} {}", parameters, one);
            }
        }
    }
}
