//! The reasons why a service gave no response, or no complete one.

use http::StatusCode;

/// The reason why a request to a service failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamFailure {
    /// The connection could not be established.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection ended before the response, or before its end.
    #[error("the connection was closed before the response")]
    Closed,
    /// The response is not valid HTTP, or cannot be forwarded.
    #[error("the response is malformed: {0}")]
    Malformed(&'static str),
    /// HTTP/2 has no form for this host, or not with a target of this length, so the request is not sent.
    #[error("the host {0:?} cannot be sent with this target by HTTP/2")]
    Host(String),
    /// The service took too long.
    #[error("no response in time")]
    Timeout,
    /// The client aborted the request, so it will not see the response either.
    #[error("the client aborted the request")]
    Client,
    /// Every address fails its health check, so the request is not sent.
    #[error("no address is healthy")]
    Unwell,
    /// The client sends the rest of its request too slowly.
    #[error("the request body arrives too slowly")]
    Slow,
    /// The client has used its share while slots are short. The request is not sent, so that other clients
    /// get their turn.
    #[error("the service is busy, and this client has used its share of requests")]
    Share,
    /// The service has `max_requests` under way, so the request is not sent.
    #[error("the maximum number of requests is under way")]
    Full,
}

impl UpstreamFailure {
    /// The status of the response to the client.
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::Connect(_) | Self::Closed | Self::Malformed(_) => StatusCode::BAD_GATEWAY,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Unwell | Self::Full | Self::Share => StatusCode::SERVICE_UNAVAILABLE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Client | Self::Host(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Whether the failure counts against the address.
    pub(crate) const fn is_upstream_fault(&self) -> bool {
        !matches!(
            self,
            Self::Client | Self::Host(_) | Self::Slow | Self::Unwell | Self::Full | Self::Share
        )
    }
}
