//! Why a service gave no answer.

use http::StatusCode;

/// What went wrong between us and a service.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamFailure {
    /// No connection came about.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection ended before there was an answer.
    #[error("the connection was closed before the response")]
    Closed,
    /// It said something that is no HTTP.
    #[error("the response is malformed: {0}")]
    Malformed(&'static str),
    /// It took too long.
    #[error("no response in time")]
    Timeout,
    /// The client broke off: nobody is left who could be told.
    #[error("the request was broken off")]
    Client,
    /// Its own word: it is not asked.
    #[error("no address of it is well")]
    Unwell,
    /// The client brings the rest of its request too slowly.
    #[error("the body of the request comes too slowly")]
    Slow,
    /// It is not asked, so that others can ask it.
    #[error("it has few places left, and this client has its share of them")]
    Share,
    /// It is not asked either.
    #[error("it has as many requests under way as it may have")]
    Full,
}

impl UpstreamFailure {
    /// The status that tells the client.
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::Connect(_) | Self::Closed | Self::Malformed(_) => StatusCode::BAD_GATEWAY,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Unwell | Self::Full | Self::Share => StatusCode::SERVICE_UNAVAILABLE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Client => StatusCode::BAD_REQUEST,
        }
    }

    /// Whether it tells against the address.
    pub(crate) const fn is_upstream_fault(&self) -> bool {
        !matches!(self, Self::Client | Self::Slow | Self::Unwell | Self::Full | Self::Share)
    }
}
