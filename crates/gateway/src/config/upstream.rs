//! The compiled configuration of a service: its addresses, timeouts and health check.

use std::fmt;
use std::path::PathBuf;

use tidegate::Span;
use tidegate_policy::section::brief;

/// A service behind the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamPlan {
    /// Its name.
    pub name: String,
    /// Its addresses: at least one.
    pub endpoints: Vec<UpstreamUrl>,
    /// How long the service may take.
    pub timeouts: UpstreamTimeouts,
    /// How slowly clients may send the bodies of requests.
    pub uploads: UploadRules,
    /// How to check whether an address is healthy.
    pub health: Option<HealthCheck>,
    /// Whether the service gets the `Host` of the client's request.
    pub preserves_host: bool,
    /// The most requests in flight at a time.
    pub max_requests: usize,
    /// A file with the certificates to verify the service against. Defaults to the system's.
    pub ca: Option<PathBuf>,
}

impl UpstreamPlan {
    pub(crate) const fn new(name: String, endpoints: Vec<UpstreamUrl>) -> Self {
        Self {
            name,
            endpoints,
            timeouts: UpstreamTimeouts::DEFAULT,
            uploads: UploadRules::DEFAULT,
            health: None,
            preserves_host: true,
            max_requests: 10_000,
            ca: None,
        }
    }
}

/// One address of a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamUrl {
    /// The protocol to use.
    pub scheme: UpstreamScheme,
    /// A name or an address; an IPv6 address without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The protocol of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UpstreamScheme {
    /// HTTP/1.1.
    Http,
    /// TLS, with HTTP/2 or HTTP/1.1 as the service prefers.
    Https,
    /// HTTP/2 without TLS.
    H2c,
}

impl UpstreamScheme {
    const ALL: [(&'static str, Self); 3] =
        [("http", Self::Http), ("https", Self::Https), ("h2c", Self::H2c)];

    const fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http | Self::H2c => 80,
        }
    }
}

impl UpstreamUrl {
    /// Parses `http://host:port`; the error says what is wrong with it.
    pub fn read(url: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            let expected = "expected http://host:port, https://host:port or h2c://host:port";
            Err(format!("{:?}: {why}; {expected}", brief(url)))
        };
        let Some((scheme, rest)) = url.split_once("://") else { return wrong("no scheme") };
        let Some((_, scheme)) = UpstreamScheme::ALL.iter().find(|(name, _)| *name == scheme) else {
            return wrong("unknown scheme");
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return wrong("a path, which comes from the request");
        }
        if authority.contains('@') {
            return wrong("a user, which is not supported");
        }
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, port.strip_prefix(':').or(Some(""))),
            None => match authority.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
        if host.is_empty() || host.len() > 253 || !host.chars().all(is_host) {
            return wrong("no host");
        }
        let port = match port.map(str::parse::<u16>) {
            None => scheme.default_port(),
            Some(Ok(port)) if port > 0 => port,
            Some(_) => return wrong("no port"),
        };
        Ok(Self { scheme: *scheme, host: host.to_owned(), port })
    }

    /// The host and the port, as a `Host` header has them.
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        if self.port == self.scheme.default_port() { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = UpstreamScheme::ALL.iter().find(|(_, scheme)| *scheme == self.scheme);
        let name = found.map_or("", |(name, _)| *name);
        write!(f, "{name}://{}", self.authority())
    }
}

/// How long a service may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// To make a connection.
    pub connect: Span,
    /// From the end of a request to the head of the response.
    pub response: Span,
    /// The longest time without a byte in either direction.
    pub idle: Span,
}

impl UpstreamTimeouts {
    pub(crate) const DEFAULT: Self = Self {
        connect: Span::from_secs(2),
        response: Span::from_secs(60),
        idle: Span::from_secs(60),
    };
}

/// How slowly clients may send the bodies of requests, until the response begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadRules {
    /// Bytes per second; zero for no bound.
    pub least_rate: u64,
    /// How long the gateway waits for a client in total; each `least_rate` bytes earn a second more.
    pub grace: Span,
    /// The longest time that a whole body may take.
    pub longest: Option<Span>,
}

impl UploadRules {
    pub(crate) const DEFAULT: Self =
        Self { least_rate: 240, grace: Span::from_secs(10), longest: None };
}

/// How to check whether an address is healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The path of the request.
    pub path: String,
    /// The time between checks.
    pub every: Span,
    /// How long the response may take.
    pub timeout: Span,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_look() {
        for (url, shown) in [
            ("http://127.0.0.1:3000", "http://127.0.0.1:3000"),
            ("http://api.internal/", "http://api.internal"),
            ("https://api.internal:443", "https://api.internal"),
            ("h2c://[::1]:50051", "h2c://[::1]:50051"),
            ("https://[::1]", "https://[::1]"),
        ] {
            assert_eq!(UpstreamUrl::read(url).unwrap().to_string(), shown, "{url}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (url, why) in [
            ("127.0.0.1:3000", "no scheme"),
            ("ftp://x", "unknown scheme"),
            ("http://x/api", "a path"),
            ("http://user@x", "a user"),
            ("http://", "no host"),
            ("http://a b", "no host"),
            ("http://x:0", "no port"),
            ("http://x:70000", "no port"),
            ("http://[::1]x", "no port"),
        ] {
            assert!(UpstreamUrl::read(url).unwrap_err().contains(why), "{url}");
        }
    }
}
