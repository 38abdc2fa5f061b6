//! Globs on paths: `*` within a segment, `**` for any number of segments.

use crate::files::normalise::in_one_spelling;
use crate::files::settings::PathCase;

/// A compiled glob. Matching is linear in the path and the pattern, quadratic in the worst case, and
/// does not allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathGlob {
    /// The text that every match begins with. It rules out most paths on its own.
    start: Box<[u8]>,
    segments: Vec<GlobSegment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum GlobSegment {
    /// `**`.
    Deep,
    /// The pieces of literal text around stars: only between two pieces there can be other text.
    Pieces(Vec<Box<[u8]>>),
}

impl PathGlob {
    /// Compiles a pattern that begins with a slash.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        Self::with(pattern, |piece| piece.as_bytes().into())
    }

    /// Compiles a pattern for paths in normal form: its literal text is normalised as well. `%2A` is a
    /// literal star.
    pub(crate) fn of_paths(pattern: &str, case: PathCase) -> Result<Self, String> {
        Self::with(pattern, |piece| {
            let mut spelled = in_one_spelling(piece.as_bytes());
            if case == PathCase::Ignore {
                spelled.make_ascii_lowercase();
            }
            spelled.as_slice().into()
        })
    }

    fn with(pattern: &str, spelled: impl Fn(&str) -> Box<[u8]>) -> Result<Self, String> {
        let literal = pattern.split('*').next().unwrap_or_default();
        let start = spelled(literal.trim_end_matches('/'));
        let Some(pattern) = pattern.strip_prefix('/') else {
            return Err("expected a path that begins with a slash".to_owned());
        };
        let mut segments = Vec::new();
        for segment in pattern.split('/') {
            segments.push(match segment {
                "**" => GlobSegment::Deep,
                _ if segment.contains("**") => {
                    return Err("** must be a whole segment, as in /static/**".to_owned());
                }
                _ => GlobSegment::Pieces(segment.split('*').map(&spelled).collect()),
            });
        }
        Ok(Self { start, segments })
    }

    /// Whether a path in normal form matches. `/static/**` matches `/static` too.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        if !path.starts_with(&self.start) {
            return false;
        }
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let mut rest = path.split(is_slash as fn(&u8) -> bool);
        let mut next = 0;
        // Where to resume if the rest does not fit: the last `**` takes one segment more.
        let mut retry = None;
        loop {
            let fits = match self.segments.get(next) {
                Some(GlobSegment::Deep) => {
                    next += 1;
                    retry = Some((next, rest.clone()));
                    continue;
                }
                Some(GlobSegment::Pieces(pieces)) => {
                    rest.next().is_some_and(|segment| fits(pieces, segment))
                }
                None if rest.clone().next().is_none() => return true,
                None => false,
            };
            if fits {
                next += 1;
                continue;
            }
            let Some((after, mut from)) = retry.take() else { return false };
            if from.next().is_none() {
                return false;
            }
            (next, rest) = (after, from.clone());
            retry = Some((after, from));
        }
    }
}

fn is_slash(byte: &u8) -> bool {
    *byte == b'/'
}

/// Whether a segment has the first piece at its start, the last at its end, and the others in order.
fn fits(pieces: &[Box<[u8]>], segment: &[u8]) -> bool {
    match pieces {
        [] => segment.is_empty(),
        [only] => **only == *segment,
        [first, middle @ .., last] => {
            let Some(rest) = segment.strip_prefix(&**first) else { return false };
            let Some(mut rest) = rest.strip_suffix(&**last) else { return false };
            for piece in middle {
                let Some(at) = find(rest, piece) else { return false };
                rest = rest.get(at + piece.len()..).unwrap_or_default();
            }
            true
        }
    }
}

fn find(text: &[u8], piece: &[u8]) -> Option<usize> {
    if piece.is_empty() {
        return Some(0);
    }
    text.windows(piece.len()).position(|window| window == piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn globs_match_what_people_expect() {
        for (pattern, matching, others) in [
            ("/api/*", &["/api/x", "/api/users"][..], &["/api", "/api/x/y", "/apis/x"][..]),
            ("/api/**", &["/api", "/api/x", "/api/x/y"], &["/", "/apis"]),
            ("/**", &["/", "/a", "/a/b"], &[]),
            ("/**/login", &["/login", "/a/login", "/a/b/login"], &["/login/x", "/alogin"]),
            ("/a/**/b/**/c", &["/a/b/c", "/a/x/b/y/z/c", "/a/b/b/c/c"], &["/a/c", "/a/b"]),
            ("/v*/x", &["/v1/x", "/v/x"], &["/x", "/w1/x"]),
            ("/*.json", &["/a.json", "/.json"], &["/a.jsonx", "/a/b.json"]),
            ("/a*b*c", &["/abc", "/aXbYc", "/abbc"], &["/ab", "/acb", "/abcd"]),
        ] {
            let glob = PathGlob::new(pattern).unwrap();
            for path in matching {
                assert!(glob.matches(path.as_bytes()), "{pattern} {path}");
            }
            for path in others {
                assert!(!glob.matches(path.as_bytes()), "{pattern} {path}");
            }
        }
        assert!(PathGlob::new("api/*").is_err());
        assert!(PathGlob::new("/a**").unwrap_err().contains("must be a whole segment"));
    }

    /// The same result by brute force.
    fn naive(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern, path) {
            ([], []) => true,
            (["**", rest @ ..], _) => (0..=path.len()).any(|at| naive(rest, &path[at..])),
            ([segment, rest @ ..], [first, others @ ..]) => {
                naive_segment(segment.as_bytes(), first.as_bytes()) && naive(rest, others)
            }
            _ => false,
        }
    }

    fn naive_segment(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| naive_segment(rest, &text[at..])),
            ([a, rest @ ..], [b, others @ ..]) => a == b && naive_segment(rest, others),
            _ => false,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn it_agrees_with_trying_everything(
            pattern in prop::collection::vec(prop_oneof![Just("**".to_owned()), "[ab]{0,2}(\\*[ab]{1,2}){0,2}\\*?"], 1..5),
            path in prop::collection::vec("[ab]{0,4}", 1..6),
        ) {
            let glob = PathGlob::new(&format!("/{}", pattern.join("/"))).unwrap();
            let expected = naive(
                &pattern.iter().map(String::as_str).collect::<Vec<_>>(),
                &path.iter().map(String::as_str).collect::<Vec<_>>(),
            );
            prop_assert_eq!(glob.matches(format!("/{}", path.join("/")).as_bytes()), expected);
        }
    }

    #[test]
    fn a_hostile_path_takes_no_exponential_time() {
        let glob = PathGlob::new("/**/a/**/a/**/a/**/a/**/b").unwrap();
        assert!(!glob.matches("/a".repeat(2_000).as_bytes()));
        let glob = PathGlob::new("/*a*a*a*a*a*b").unwrap();
        assert!(!glob.matches(format!("/{}", "a".repeat(4_000)).as_bytes()));
    }
}
