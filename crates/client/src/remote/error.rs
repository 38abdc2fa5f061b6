//! Why a server did not decide.

/// Why there is no decision of the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// This is not the URL of a server.
    #[error("{0:?} is not the URL of a server: expected http://host:port or https://host:port")]
    Url(String),
    /// The server did not answer within the deadline.
    #[error("the server did not answer in time: {0}")]
    Timeout(String),
    /// The server could not be reached, or the connection broke.
    #[error("the server could not be reached: {0}")]
    Unreachable(String),
    /// The server refused the request as invalid, or as not permitted.
    #[error("the server refused the request with {status}: {detail}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What was wrong, in words.
        detail: String,
    },
    /// What answered is not a Tidegate server, or one that this version cannot read.
    #[error("not an answer of a Tidegate server: {0}")]
    Answer(String),
}

impl From<reqwest::Error> for RemoteError {
    fn from(error: reqwest::Error) -> Self {
        let is_timeout = error.is_timeout();
        // The URL may contain a password.
        let text = error.without_url().to_string();
        if is_timeout { Self::Timeout(text) } else { Self::Unreachable(text) }
    }
}
