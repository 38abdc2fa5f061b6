//! Reads the host of a request.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use http::header::HOST;
use http::{HeaderMap, Uri};

use crate::RequestFault;

/// The host of a request in one spelling: in lower case, and without a trailing dot.
///
/// ```
/// use tidegate_http::RequestHost;
///
/// let host = RequestHost::read(b"Example.com.:8080")?;
/// assert_eq!((host.name(), host.text()), ("example.com", "example.com:8080"));
/// assert!(RequestHost::read(b"example.com..").is_err());
/// # Ok::<(), tidegate_http::RequestFault>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHost<'r> {
    text: Cow<'r, str>,
    /// The length of the name without the port.
    end: usize,
}

impl<'r> RequestHost<'r> {
    /// `host` or `host:port`, where a host is a name, an IPv4 address, or an IPv6 address in brackets.
    pub fn read(text: &'r [u8]) -> Result<Self, RequestFault> {
        Self::parse(text)
            .ok_or_else(|| RequestFault::Host(String::from_utf8_lossy(text).into_owned()))
    }

    /// The host of a request, if it has one: from its target, from `Host`, or the same from both.
    pub fn of(uri: &'r Uri, headers: &'r HeaderMap) -> Result<Option<Self>, RequestFault> {
        let mut fields = headers.get_all(HOST).iter();
        let (field, other) = (fields.next(), fields.next());
        if other.is_some() {
            return Err(RequestFault::TwoHosts);
        }
        let field = field.map(|it| Self::read(it.as_bytes())).transpose()?;
        let target = uri.authority().map(|it| Self::read(it.as_str().as_bytes())).transpose()?;
        match (target, field) {
            (Some(target), Some(field)) if target != field => Err(RequestFault::TwoHosts),
            (target, field) => Ok(target.or(field)),
        }
    }

    fn parse(text: &'r [u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                address.parse::<Ipv6Addr>().ok()?;
                (text.get(..address.len() + 2)?, port)
            }
            None => {
                let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
                (is_name(name.strip_suffix('.').unwrap_or(name)).then_some(name)?, port)
            }
        };
        let is_port = |digits: &str| {
            digits.len() <= MAX_DIGITS
                && digits.bytes().all(|byte| byte.is_ascii_digit())
                && digits.parse::<u16>().is_ok()
        };
        if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
            return None;
        }
        let bare = name.strip_suffix('.').unwrap_or(name);
        if bare.len() == name.len() && !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Some(Self { text: Cow::Borrowed(text), end: name.len() });
        }
        let lower = format!("{}{port}", bare.to_ascii_lowercase());
        Some(Self { text: Cow::Owned(lower), end: bare.len() })
    }

    /// Without a port.
    pub fn name(&self) -> &str {
        self.text.get(..self.end).unwrap_or_default()
    }

    /// With its port, if it has one.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name alone.
    pub(super) fn into_name(self) -> Cow<'r, [u8]> {
        match self.text {
            Cow::Borrowed(text) => {
                Cow::Borrowed(text.as_bytes().get(..self.end).unwrap_or_default())
            }
            Cow::Owned(text) => {
                let mut name = text.into_bytes();
                name.truncate(self.end);
                Cow::Owned(name)
            }
        }
    }
}

/// Labels with dots between them. Underscores are not in the standard, but common in internal networks.
fn is_name(name: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_fit);
    name.len() <= MAX_NAME && name.split('.').all(is_label)
}

const MAX_NAME: usize = 253;
const MAX_DIGITS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_name() {
        for (text, name, whole) in [
            ("example.com", "example.com", "example.com"),
            ("EXAMPLE.com", "example.com", "example.com"),
            ("example.com:8080", "example.com", "example.com:8080"),
            ("Example.Com.:443", "example.com", "example.com:443"),
            ("my_service:80", "my_service", "my_service:80"),
            ("10.0.0.1:80", "10.0.0.1", "10.0.0.1:80"),
            ("[::1]:80", "[::1]", "[::1]:80"),
            ("[2001:DB8::1]", "[2001:db8::1]", "[2001:db8::1]"),
        ] {
            let host = RequestHost::read(text.as_bytes()).unwrap();
            assert_eq!((host.name(), host.text()), (name, whole), "{text}");
            assert_eq!(&*host.into_name(), name.as_bytes());
        }
    }

    #[test]
    fn attack_10_what_is_not_a_host_is_refused() {
        for text in [
            "", ".", ":80", "a..", "a..b", ".a", "a:", "a:x", "a:80:80", "a:123456", "a:99999",
            "a:+80", "[a]", "[::1", "[::1]x", "[::1]:", "::1", "a b", "a,b", "user@a", "a/b",
            "a%62", "[v1.x]", "\u{e9}",
        ] {
            assert!(RequestHost::read(text.as_bytes()).is_err(), "{text}");
        }
        assert!(RequestHost::read("a".repeat(300).as_bytes()).is_err());
        assert!(RequestHost::read(b"\xff").is_err());
    }
}
