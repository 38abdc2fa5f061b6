//! Displays URLs and addresses without their passwords.

use std::fmt;

use super::{RedisAddress, RedisDeployment, RedisLogin, RedisUrl};

const MASK: &str = "***";

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.tls { "s" } else { "" };
        match &self.target {
            RedisDeployment::Single(RedisAddress::Unix(path)) => {
                write!(f, "redis+unix://{}{}", self.login, path.display())?;
                match self.database {
                    0 => Ok(()),
                    database => write!(f, "?db={database}"),
                }
            }
            RedisDeployment::Single(address) => {
                write!(f, "redis{s}://{}{address}/{}", self.login, self.database)
            }
            RedisDeployment::Sentinel { sentinels, service, .. } => {
                let hosts = AddressList(sentinels);
                write!(f, "redis{s}+sentinel://{}{hosts}/{service}/{}", self.login, self.database)
            }
            RedisDeployment::Cluster { seeds } => {
                write!(f, "redis{s}+cluster://{}{}", self.login, AddressList(seeds))
            }
        }
    }
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// As it appears in a URL, with the `@` if there is anything to show.
impl fmt::Display for RedisLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_deref().unwrap_or("");
        match (&self.user, &self.password) {
            (None, None) => Ok(()),
            (Some(_), None) => write!(f, "{user}@"),
            (_, Some(_)) => write!(f, "{user}:{MASK}@"),
        }
    }
}

impl fmt::Debug for RedisLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| MASK);
        f.debug_struct("RedisLogin").field("user", &self.user).field("password", &password).finish()
    }
}

/// Addresses, separated by commas.
struct AddressList<'a>(&'a [RedisAddress]);

impl fmt::Display for AddressList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, address) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{address}")?;
        }
        Ok(())
    }
}

/// A URL without its passwords. The URL may be malformed, so this hides too much rather than too
/// little.
pub(super) fn masked(url: &str) -> String {
    let url = without_parameters(url);
    let start = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(start);
    match rest.rsplit_once('@') {
        None => url,
        Some((login, rest)) => {
            let user = login.split_once(':').map_or("", |(user, _)| user);
            format!("{scheme}{user}:{MASK}@{rest}")
        }
    }
}

/// Hides the values of parameters whose names contain `pass`.
fn without_parameters(url: &str) -> String {
    let shown = |piece: &str| {
        let name = piece.to_ascii_lowercase().find("pass")?;
        let value = name + piece[name..].find('=')? + 1;
        Some(format!("{}{MASK}", &piece[..value]))
    };
    let pieces = url.split('&').map(|piece| shown(piece).unwrap_or_else(|| piece.to_owned()));
    pieces.collect::<Vec<_>>().join("&")
}
