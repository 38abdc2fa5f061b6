//! Patterns that the value of an attribute can match.

use super::PathGlob;
use crate::files::normalise::{IpAddress, IpNetwork, NormalForm, normal_path};

/// A pattern for the value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValuePattern {
    /// `*`: any value, but the attribute is present.
    Any,
    /// Exactly this.
    Exact(Box<[u8]>),
    /// `abc*`.
    Prefix(Box<[u8]>),
    /// `*abc`.
    Suffix(Box<[u8]>),
    /// `/api/**`.
    Glob(PathGlob),
    /// `10.0.0.0/8`, for an attribute that is an address.
    Network(IpNetwork),
}

impl ValuePattern {
    /// Compiles a pattern without its negation. Patterns are normalised in the same way as values.
    pub(crate) fn new(text: &str, form: &NormalForm) -> Result<Self, String> {
        if text.len() > MAX_PATTERN {
            return Err(format!("is longer than {MAX_PATTERN} bytes"));
        }
        if text == "*" {
            return Ok(Self::Any);
        }
        match form {
            NormalForm::Ip { .. } => IpNetwork::read(text).map(Self::Network).ok_or_else(|| {
                "expected an address or a network, such as 203.0.113.9 or 10.0.0.0/8".to_owned()
            }),
            NormalForm::Path(_) if !text.starts_with('/') => {
                Err("expected a path that begins with a slash".to_owned())
            }
            NormalForm::Path(case) if text.contains('*') => {
                PathGlob::of_paths(text, *case).map(Self::Glob)
            }
            NormalForm::Path(case) => {
                Ok(Self::Exact(normal_path(text.as_bytes(), *case).as_ref().into()))
            }
            _ => Self::of_text(text),
        }
    }

    fn of_text(text: &str) -> Result<Self, String> {
        if text.starts_with('/') && text.contains('*') {
            return PathGlob::new(text).map(Self::Glob);
        }
        match text.strip_suffix('*') {
            Some(prefix) if !prefix.contains('*') => Ok(Self::Prefix(prefix.as_bytes().into())),
            None if !text.contains('*') => Ok(Self::Exact(text.as_bytes().into())),
            None => match text.strip_prefix('*') {
                Some(suffix) if !suffix.contains('*') => Ok(Self::Suffix(suffix.as_bytes().into())),
                _ => Err(STAR.to_owned()),
            },
            Some(_) => Err(STAR.to_owned()),
        }
    }

    /// Whether a value, in its attribute's form, matches.
    pub(crate) fn matches(&self, value: &[u8], address: Option<IpAddress>) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => **exact == *value,
            Self::Prefix(prefix) => value.starts_with(prefix),
            Self::Suffix(suffix) => value.ends_with(suffix),
            Self::Glob(glob) => glob.matches(value),
            Self::Network(network) => address.is_some_and(|address| network.contains(address)),
        }
    }
}

const MAX_PATTERN: usize = 1024;
const STAR: &str = "a * is allowed only at one end, or in a path that begins with a slash";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::settings::PathCase;

    #[test]
    fn patterns_are_read_as_they_look() {
        let text = |pattern: &str| ValuePattern::new(pattern, &NormalForm::Text).unwrap();
        assert_eq!(text("*"), ValuePattern::Any);
        assert!(text("POST").matches(b"POST", None) && !text("POST").matches(b"post", None));
        assert!(text("key-*").matches(b"key-1", None) && !text("key-*").matches(b"ke", None));
        assert!(text("*.org").matches(b"a.org", None) && !text("*.org").matches(b"org", None));
        assert!(ValuePattern::new("*a*", &NormalForm::Text).is_err());
        assert!(text("/a/**").matches(b"/a/b", None));
        assert!(ValuePattern::new("a*b", &NormalForm::Text).is_err());
        assert!(ValuePattern::new(&"x".repeat(2_000), &NormalForm::Text).is_err());
    }

    #[test]
    fn a_path_is_matched_in_normal_form() {
        let (exact, ignored) =
            (NormalForm::Path(PathCase::Exact), NormalForm::Path(PathCase::Ignore));
        let path = ValuePattern::new("/a/../login/", &exact).unwrap();
        assert_eq!(path, ValuePattern::Exact(b"/login"[..].into()));
        assert!(ValuePattern::new("login", &exact).is_err());
        let path = |pattern: &str, form: &NormalForm, path: &[u8]| {
            ValuePattern::new(pattern, form).unwrap().matches(path, None)
        };
        assert!(path("/users/%40me/*", &exact, b"/users/@me/x"));
        assert!(path("/caf\u{e9}/**", &exact, b"/caf%C3%A9/x"));
        assert!(path("/a%2A/*", &exact, b"/a*/x") && !path("/a%2A/*", &exact, b"/ab/x"));
        assert!(path("/Users/*/Keys", &ignored, b"/users/x/keys"));
        assert!(path("/Login", &ignored, b"/login"));
    }
}
