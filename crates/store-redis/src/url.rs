//! Parses Redis URLs.

mod display;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use tidegate_core::text::unescaped;

/// Where Redis is and how to log in: everything that a URL contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RedisUrl {
    pub(crate) tls: bool,
    pub(crate) login: RedisLogin,
    pub(crate) database: u32,
    pub(crate) target: RedisDeployment,
}

/// How Redis is deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RedisDeployment {
    /// One server.
    Single(RedisAddress),
    /// The current primary of a service, which Sentinels know.
    Sentinel { sentinels: Vec<RedisAddress>, service: String, login: RedisLogin },
    /// Primaries that share the slots.
    Cluster { seeds: Vec<RedisAddress> },
}

/// One server's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RedisAddress {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// A user and a password, either of which may be missing.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct RedisLogin {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// A URL that cannot be used, and why. It shows the URL without its passwords.
///
/// ```
/// use tidegate_store_redis::RedisConfig;
///
/// let error = "redis://:secret@host:99999".parse::<RedisConfig>().unwrap_err();
/// assert!(!error.to_string().contains("secret"));
/// ```
///
/// `Debug` is the same text, for programs whose `main` returns it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url:?}: {problem}")]
pub struct RedisUrlError {
    url: String,
    problem: String,
}

impl fmt::Debug for RedisUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const SINGLE: &str = "expected redis://[[user]:password@]host[:port][/database]";
const UNIX: &str = "expected redis+unix://[[user]:password@]/path/to/socket[?db=database]";
const SENTINEL: &str =
    "expected redis+sentinel://[[user]:password@]host[:port][,...]/service[/database]";
const CLUSTER: &str = "expected redis+cluster://[[user]:password@]host[:port][,...]";
const SCHEMES: &str = "expected redis://, rediss://, redis+unix://, redis+sentinel://, \
     rediss+sentinel://, redis+cluster:// or rediss+cluster://";

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// Enough for anyone, and few enough to be tried one after the other.
const MOST_HOSTS: usize = 64;

impl std::str::FromStr for RedisUrl {
    type Err = RedisUrlError;

    fn from_str(url: &str) -> Result<Self, RedisUrlError> {
        parse(url).map_err(|problem| RedisUrlError { url: display::masked(url), problem })
    }
}

/// The parts of a URL, not yet decoded.
struct RedisUrlParts<'a> {
    tls: bool,
    login: RedisLogin,
    hosts: &'a str,
    path: &'a str,
    query: Vec<(&'a str, String)>,
}

fn parse(url: &str) -> Result<RedisUrl, String> {
    let (scheme, rest) =
        url.split_once("://").ok_or_else(|| format!("no scheme such as redis://; {SCHEMES}"))?;
    let (tls, form) = match scheme {
        "redis" => (false, SINGLE),
        "rediss" => (true, SINGLE),
        "redis+unix" | "unix" => (false, UNIX),
        "redis+sentinel" => (false, SENTINEL),
        "rediss+sentinel" => (true, SENTINEL),
        "redis+cluster" => (false, CLUSTER),
        "rediss+cluster" => (true, CLUSTER),
        _ => return Err(format!("unknown scheme; {SCHEMES}")),
    };
    let mut parts = split(rest, tls).map_err(|problem| format!("{problem}; {form}"))?;
    let target = match form {
        UNIX => unix(&mut parts),
        SENTINEL => sentinel(&mut parts),
        CLUSTER => cluster(&parts),
        _ => single(&parts),
    }
    .map_err(|problem| format!("{problem}; {form}"))?;
    // A parameter that was not consumed is a misspelling, and a misspelt password must not go
    // unnoticed.
    match parts.query.first() {
        Some((name, _)) => Err(format!("unknown parameter {name:?}; {form}")),
        None => Ok(target),
    }
}

fn split(rest: &str, tls: bool) -> Result<RedisUrlParts<'_>, String> {
    if rest.contains('#') {
        return Err("\"#\" must be written %23".to_owned());
    }
    let (before, after) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let ends_oddly = before.rsplit_once(':').is_some_and(|(_, end)| !is_port(end));
    if ends_oddly && !before.contains('@') && after.contains('@') {
        // What looks like a port is the beginning of a password, and must not be shown.
        return Err("\"/\" and \"?\" in a password must be written %2F and %3F".to_owned());
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (login_of(login)?, hosts),
        None => (RedisLogin::default(), authority),
    };
    Ok(RedisUrlParts { tls, login, hosts, path, query: parameters(query)? })
}

fn login_of(text: &str) -> Result<RedisLogin, String> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(decoded(password, "the password")?)),
        None => (text, None),
    };
    let user = Some(decoded(user, "the user")?).filter(|user| !user.is_empty());
    Ok(RedisLogin { user, password: password.filter(|password| !password.is_empty()) })
}

fn parameters(query: &str) -> Result<Vec<(&str, String)>, String> {
    let mut found: Vec<(&str, String)> = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) =
            parameter.split_once('=').ok_or_else(|| "a parameter without \"=\"".to_owned())?;
        if found.iter().any(|(known, _)| *known == name) {
            return Err(format!("parameter {name:?} is given twice"));
        }
        found.push((name, decoded(value, name)?));
    }
    Ok(found)
}

fn single(parts: &RedisUrlParts<'_>) -> Result<RedisUrl, String> {
    if parts.hosts.contains(',') {
        return Err("several hosts need redis+sentinel:// or redis+cluster://".to_owned());
    }
    let deployment = RedisDeployment::Single(address(parts.hosts, REDIS_PORT)?);
    let database = database(parts.path.strip_prefix('/').unwrap_or(""))?;
    Ok(target(parts, database, deployment))
}

fn unix(parts: &mut RedisUrlParts<'_>) -> Result<RedisUrl, String> {
    if !parts.hosts.is_empty() {
        return Err(format!("a socket has no host, but found {:?}", parts.hosts));
    }
    let path = decoded(parts.path, "the path")?;
    if path.len() < 2 {
        return Err("no path".to_owned());
    }
    let database = database(&take(parts, "db").unwrap_or_default())?;
    Ok(target(parts, database, RedisDeployment::Single(RedisAddress::Unix(path.into()))))
}

fn sentinel(parts: &mut RedisUrlParts<'_>) -> Result<RedisUrl, String> {
    let sentinels = addresses(parts.hosts, SENTINEL_PORT)?;
    let path = parts.path.strip_prefix('/').unwrap_or("");
    let (service, db) = path.split_once('/').unwrap_or((path, ""));
    let service = decoded(service, "the service")?;
    if service.is_empty() {
        return Err("no service: the name under which the Sentinels know the primary".to_owned());
    }
    let login = RedisLogin {
        user: take(parts, "sentinel_user"),
        password: take(parts, "sentinel_password"),
    };
    let database = database(db)?;
    Ok(target(parts, database, RedisDeployment::Sentinel { sentinels, service, login }))
}

fn cluster(parts: &RedisUrlParts<'_>) -> Result<RedisUrl, String> {
    if database(parts.path.strip_prefix('/').unwrap_or(""))? != 0 {
        return Err("a cluster has only database 0".to_owned());
    }
    let seeds = addresses(parts.hosts, REDIS_PORT)?;
    Ok(target(parts, 0, RedisDeployment::Cluster { seeds }))
}

fn target(parts: &RedisUrlParts<'_>, database: u32, deployment: RedisDeployment) -> RedisUrl {
    RedisUrl { tls: parts.tls, login: parts.login.clone(), database, target: deployment }
}

fn take(parts: &mut RedisUrlParts<'_>, name: &str) -> Option<String> {
    let at = parts.query.iter().position(|(known, _)| *known == name)?;
    Some(parts.query.swap_remove(at).1)
}

fn addresses(hosts: &str, port: u16) -> Result<Vec<RedisAddress>, String> {
    let found: Vec<_> =
        hosts.split(',').map(|host| address(host, port)).collect::<Result<_, _>>()?;
    if found.len() > MOST_HOSTS {
        return Err(format!("{} hosts, but at most {MOST_HOSTS} are allowed", found.len()));
    }
    Ok(found)
}

/// `host`, `host:port`, `[::1]` or `[::1]:port`.
fn address(text: &str, port: u16) -> Result<RedisAddress, String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("\"[\" is not closed")?;
            host.parse::<Ipv6Addr>().map_err(|_| format!("{host:?} is not an IPv6 address"))?;
            (host, if after.is_empty() { port } else { port_of(after)? })
        }
        None => match text.find(':') {
            Some(at) => (&text[..at], port_of(&text[at..])?),
            None => (text, port),
        },
    };
    if host.is_empty() {
        return Err("no host".to_owned());
    }
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    match host.chars().all(plain) {
        true => Ok(RedisAddress::Tcp { host: host.to_owned(), port }),
        false => Err(format!("{host:?} is not a host name")),
    }
}

fn port_of(text: &str) -> Result<u16, String> {
    let digits = text.strip_prefix(':').unwrap_or(text);
    if digits.contains(':') {
        return Err("an IPv6 address must be written in brackets, as in [::1]:6379".to_owned());
    }
    let wrong = || format!("port {digits:?} is not a number from 1 to 65535");
    match digits.bytes().all(|b| b.is_ascii_digit()) {
        true => digits.parse().ok().filter(|port| *port > 0).ok_or_else(wrong),
        false => Err(wrong()),
    }
}

fn database(text: &str) -> Result<u32, String> {
    let number = match text {
        "" => Some(0),
        _ if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| format!("database {text:?} is not a number"))
}

/// Undoes percent-encoding. Errors name `what` and not the text, which may be a secret.
fn decoded(text: &str, what: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let (byte, after) = match byte {
            b'%' => unescaped(rest).ok_or_else(|| bad_escape(what))?,
            _ => (*byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| format!("{what} is not UTF-8"))
}

fn bad_escape(what: &str) -> String {
    format!("{what} has a \"%\" that is not followed by two hexadecimal digits (write it %25)")
}
