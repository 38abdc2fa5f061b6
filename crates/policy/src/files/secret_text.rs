//! Values of a configuration that may be secret, such as passwords and headers.

use std::fmt;
use std::path::PathBuf;

/// A value that may be secret: the value itself, or where to find it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretText {
    /// The value itself.
    Text(String),
    /// The content of a file, without the line break at its end.
    File(PathBuf),
    /// The value of an environment variable.
    Env(String),
}

/// Shows where to find the value, and never the value.
impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(***)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Env(name) => f.debug_tuple("Env").field(name).finish(),
        }
    }
}
