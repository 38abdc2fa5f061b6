//! Why a call was not made.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

/// What comes of a call that has no response.
///
/// Where the inner service's error is an [`Error`], so is this, and shows it as it is. `Box<dyn Error>`,
/// which is the error of many of tower's layers, is none, by a rule of the standard library; behind such
/// a service, [`into_boxed`](Self::into_boxed) makes it one error again:
///
/// ```
/// use http::{Request, Response};
/// use tidegate::client::{PoliteError, PoliteLayer};
/// use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), BoxError> {
/// # let http = service_fn(|_: Request<String>| async { Ok::<_, std::io::Error>(Response::new(())) });
/// // As tower's timeout, buffer and load-shed make of any service.
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
    /// The server has said not to come back for this long, which is longer than this call waits. It was
    /// not sent; or it was refused, and others were told to wait for longer while it waited to be sent
    /// again.
    #[error("the server wants no request for {0:?}")]
    TooEarly(Duration),
    /// The server has refused most calls recently, so this one was not sent.
    #[error("not sent: the server refuses most requests at the moment")]
    Throttled,
}

impl<E: Into<Box<dyn Error + Send + Sync>>> PoliteError<E> {
    /// The error of the inner service itself, or a `PoliteError<Infallible>` that says why nothing was
    /// sent.
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
        assert_eq!(boxed.to_string(), "the server wants no request for 7s");
    }
}
