//! Why a call was not made.

use std::time::Duration;

/// What comes of a call that has no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoliteError<E> {
    /// The inner service failed.
    #[error(transparent)]
    Service(E),
    /// The server has said not to come back for this long, which is longer than this call waits.
    #[error("the server wants no request for {0:?}")]
    TooEarly(Duration),
    /// The server has refused most calls recently, so this one was not sent.
    #[error("not sent: the server refuses most requests at the moment")]
    Throttled,
}
