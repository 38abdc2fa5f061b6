//! Listen addresses as users write them, and the errors of opening one.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

/// An address to listen on: `host:port`, or `unix:/path`. Port 0 picks a free port.
///
/// ```
/// use tidegate_server::ListenAddress;
///
/// let address: ListenAddress = "unix:/run/tidegate.sock".parse()?;
/// assert_eq!(address.to_string(), "unix:/run/tidegate.sock");
/// assert!("8080".parse::<ListenAddress>().unwrap_err().to_string().contains("expected host:port"));
/// # Ok::<(), tidegate_server::ListenError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A host, by name or number, and a port.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl FromStr for ListenAddress {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        if let Some(path) = text.strip_prefix(UNIX) {
            return match path {
                "" => Err(ListenError::NotAnAddress(text.to_owned())),
                path => Ok(Self::Unix(path.into())),
            };
        }
        // Host names are resolved later; only what can never be an address is refused here.
        let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        match port.map(|(_, port)| port.parse::<u16>()) {
            Some(Ok(_)) => Ok(Self::Tcp(text.to_owned())),
            _ => Err(ListenError::NotAnAddress(text.to_owned())),
        }
    }
}

impl ListenAddress {
    /// Every address that the name resolves to.
    pub(crate) fn lookup(&self) -> Result<Vec<std::net::SocketAddr>, ListenError> {
        let Self::Tcp(name) = self else { return Ok(Vec::new()) };
        match name.to_socket_addrs() {
            Ok(found) => Ok(found.collect()),
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                Err(ListenError::NotAnAddress(name.clone()))
            }
            Err(error) => Err(self.unavailable(error)),
        }
    }

    pub(crate) fn unavailable(&self, error: io::Error) -> ListenError {
        ListenError::Unavailable { address: self.to_string(), error }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(name) => f.write_str(name),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// Why a listener could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The text is not a valid address.
    #[error(
        "{0:?} is not an address: expected host:port, such as 127.0.0.1:8080, or unix:/path/of.sock"
    )]
    NotAnAddress(String),
    /// The system refuses to listen there.
    #[error("cannot listen on {address:?}: {error}{}", hint(address, error))]
    Unavailable {
        /// The address.
        address: String,
        /// The system's error.
        error: io::Error,
    },
}

/// What the user should check.
fn hint(address: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse if address.starts_with(UNIX) => "; expected a path that is not in use",
        ErrorKind::AddrInUse => {
            "; expected an address that is not in use, or port 0 for a free one"
        }
        ErrorKind::AddrNotAvailable => "; expected an address of this machine",
        ErrorKind::PermissionDenied => {
            "; expected a port above 1023, a writable directory, or more privileges"
        }
        _ => "",
    }
}

const UNIX: &str = "unix:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_never_be_an_address_is_refused_and_the_rest_comes_back_as_it_was() {
        for text in ["", ":80", "host", "host:", "host:http", "host:65536", "unix:"] {
            let error = text.parse::<ListenAddress>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is not an address")), "{error}");
        }
        for text in ["127.0.0.1:0", "[::1]:80", "localhost:8080", "unix:a.sock"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
    }
}
