//! The error of a call without a response.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

/// Why a call has no response.
///
/// It is an [`Error`] if the inner service's error is one, and displays it unchanged. `Box<dyn Error>`,
/// the error of many of tower's layers, does not implement [`Error`] itself; behind such a service,
/// [`into_boxed`](Self::into_boxed) turns this type into a boxed error again:
///
/// ```
/// use http::{Request, Response};
/// use tidegate::client::{PoliteError, PoliteLayer};
/// use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), BoxError> {
/// # let http = service_fn(|_: Request<String>| async { Ok::<_, std::io::Error>(Response::new(())) });
/// // A service with boxed errors, like those behind tower's timeout, buffer and load-shed.
/// let inner = ServiceBuilder::new().map_err(BoxError::from).service(http);
///
/// let client = PoliteLayer::new().layer(inner).map_err(PoliteError::into_boxed);
/// let response = client.oneshot(Request::new(String::new())).await?;
/// assert_eq!(response.status(), 200);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoliteError<E> {
    /// The inner service failed.
    #[error(transparent)]
    Service(E),
    /// The server requested a wait of this length, which is longer than this call waits. It was not sent;
    /// or it was refused, and the server requested a longer wait from another call while this one waited
    /// for its retry.
    #[error("the server accepts no request for {0:?}")]
    TooEarly(Duration),
    /// The server has refused most calls recently, so this one was not sent.
    #[error("not sent: the server currently refuses most requests")]
    Throttled,
}

impl<E: Into<Box<dyn Error + Send + Sync>>> PoliteError<E> {
    /// The error of the inner service itself, or a `PoliteError<Infallible>` with the reason why nothing
    /// was sent.
    pub fn into_boxed(self) -> Box<dyn Error + Send + Sync> {
        match self {
            Self::Service(error) => error.into(),
            Self::TooEarly(wait) => PoliteError::<Infallible>::TooEarly(wait).into(),
            Self::Throttled => PoliteError::<Infallible>::Throttled.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    type BoxedError = Box<dyn Error + Send + Sync>;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot connect")]
    struct UnreachableError(#[source] io::Error);

    #[test]
    fn a_concrete_error_is_shown_with_its_source() {
        let error: BoxedError =
            PoliteError::Service(UnreachableError(io::Error::other("no route"))).into();
        assert_eq!(error.to_string(), "cannot connect");
        assert_eq!(error.source().unwrap().to_string(), "no route");
    }

    #[test]
    fn a_boxed_error_is_what_it_was() {
        let boxed = PoliteError::<BoxedError>::Service(io::Error::other("x").into()).into_boxed();
        assert!(boxed.is::<io::Error>());
        let boxed = PoliteError::<BoxedError>::Throttled.into_boxed();
        assert_eq!(boxed.downcast_ref(), Some(&PoliteError::<Infallible>::Throttled));
        let wait = Duration::from_secs(7);
        let boxed = PoliteError::<io::Error>::TooEarly(wait).into_boxed();
        assert_eq!(boxed.to_string(), "the server accepts no request for 7s");
    }
}
