//! The configuration of the connection: where Redis is, how to log in, and time limits.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::url::{RedisUrl, RedisUrlError};

/// Where Redis is and how to connect to it. Parsed from a URL:
///
/// | URL | |
/// |---|---|
/// | `redis://[[user]:password@]host[:port][/database]` | one server |
/// | `redis+unix://[[user]:password@]/path/to/socket[?db=database]` | one server, over its Unix socket |
/// | `redis+sentinel://[[user]:password@]host[:port][,...]/service[/database]` | the primary that these Sentinels know; `?sentinel_user=` and `sentinel_password=` for the Sentinels themselves |
/// | `redis+cluster://[[user]:password@]host[:port][,...]` | a Cluster, discovered through any of its nodes |
///
/// With TLS the scheme begins with `rediss`. Special characters in a user name or password are
/// percent-encoded. Passwords are never shown when a configuration is printed.
///
/// ```
/// use tidegate::RedisConfig;
///
/// let config: RedisConfig = "redis://limiter:hunter2@cache.internal/1".parse()?;
/// let config = config.connections(4);
/// assert_eq!(config.to_string(), "redis://limiter:***@cache.internal:6379/1");
///
/// let error = "redis://cache.internal:port".parse::<RedisConfig>().unwrap_err();
/// assert!(error.to_string().contains("\"port\" is not a number from 1 to 65535"));
/// # Ok::<(), tidegate::RedisUrlError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RedisConfig {
    pub(crate) url: RedisUrl,
    pub(crate) connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) max_age: Duration,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) password_file: Option<PathBuf>,
    /// The certificate and its key.
    pub(crate) client_cert: Option<(PathBuf, PathBuf)>,
}

impl RedisConfig {
    /// How many connections each server gets, up to 64. Defaults to two. A connection is one
    /// pipeline driven by one task, so more than a few help only a very busy process.
    pub fn connections(self, connections: usize) -> Self {
        Self { connections: connections.clamp(1, MOST_CONNECTIONS), ..self }
    }

    /// The time limit for connecting, from the name lookup to the login. Defaults to 250 ms.
    ///
    /// It is usually longer than a decision's deadline. A decision does not wait for it: it fails at its own
    /// deadline, and the connection that is being made serves the next one.
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// The age at which a connection is replaced, give or take a fifth. Defaults to five minutes.
    /// Host names are looked up again then, so that a change is noticed even if the old server still
    /// answers.
    pub fn max_age(self, max_age: Duration) -> Self {
        Self { max_age, ..self }
    }

    /// Logs in with this password in place of the URL's.
    ///
    /// Unlike a password in the URL, it needs no percent-encoding.
    ///
    /// ```
    /// use tidegate_store_redis::RedisConfig;
    ///
    /// let config: RedisConfig = "redis://limiter@cache.internal".parse()?;
    /// let config = config.password("p@ss/word");
    /// assert!(config.has_password());
    /// assert!(!config.to_string().contains("p@ss"));
    /// # Ok::<(), tidegate_store_redis::RedisUrlError>(())
    /// ```
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.url.login.password = Some(password.into());
        self
    }

    /// Logs in with the password in this file in place of the URL's, without the line break at its end.
    /// The file is read again for each connection, so that a new password needs no restart.
    pub fn password_file(self, path: impl Into<PathBuf>) -> Self {
        Self { password_file: Some(path.into()), ..self }
    }

    /// Whether the URL has a password of its own.
    pub fn has_password(&self) -> bool {
        self.url.login.password.is_some()
    }

    /// Trusts the certificates in this PEM file instead of the system's. The file is read again for
    /// each connection.
    ///
    /// It only matters with TLS (`rediss://`, `rediss+sentinel://` and so on). A file that cannot be read is an
    /// error of the connection, and of the requests that wait for it.
    pub fn ca_file(self, path: impl Into<PathBuf>) -> Self {
        Self { ca_file: Some(path.into()), ..self }
    }

    /// Presents this certificate, with its key, to the server. Both are PEM files, read again for
    /// each connection.
    pub fn client_cert(self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { client_cert: Some((cert.into(), key.into())), ..self }
    }
}

impl FromStr for RedisConfig {
    type Err = RedisUrlError;

    fn from_str(url: &str) -> Result<Self, RedisUrlError> {
        Ok(Self {
            url: url.parse()?,
            connections: 2,
            connect_timeout: Duration::from_millis(250),
            max_age: Duration::from_secs(300),
            ca_file: None,
            password_file: None,
            client_cert: None,
        })
    }
}

/// The URL, with its passwords masked.
impl fmt::Display for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

const MOST_CONNECTIONS: usize = 64;
