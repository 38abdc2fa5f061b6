//! Which requests can be sent again, and with what body.

use http::Method;
use http::request::Parts;
use http_body::Body;

/// Makes the body of a retry.
///
/// [`EmptyBodies`] repeats requests without a body, and [`ClonedBodies`] all whose body can be
/// cloned. A closure works too:
///
/// ```
/// use tidegate::client::PoliteLayer;
///
/// let layer = PoliteLayer::new().replay(|body: &String| Some(body.clone()));
/// ```
pub trait BodyReplay<B>: Clone + Send + Sync + 'static {
    /// The same body once more; `None` if that is not possible.
    fn replay(&self, body: &B) -> Option<B>;
}

impl<B, F: Fn(&B) -> Option<B> + Clone + Send + Sync + 'static> BodyReplay<B> for F {
    fn replay(&self, body: &B) -> Option<B> {
        self(body)
    }
}

/// Repeats requests whose body is empty.
///
/// This is the default. It needs no copy of anything: the body of the retry is the empty default.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyBodies;

impl<B: Body + Default> BodyReplay<B> for EmptyBodies {
    fn replay(&self, body: &B) -> Option<B> {
        body.is_end_stream().then(B::default)
    }
}

/// Repeats requests by cloning their bodies.
///
/// Chosen by [`PoliteLayer::clone_bodies`](crate::PoliteLayer::clone_bodies).
#[derive(Clone, Copy, Debug, Default)]
pub struct ClonedBodies;

impl<B: Clone> BodyReplay<B> for ClonedBodies {
    fn replay(&self, body: &B) -> Option<B> {
        Some(body.clone())
    }
}

/// Whether a request is safe to repeat: by its method, or because an `Idempotency-Key` lets the server
/// recognize the repetition.
pub(crate) fn is_idempotent(head: &Parts) -> bool {
    let by_method =
        [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::PUT, Method::DELETE];
    by_method.contains(&head.method) || head.headers.contains_key("idempotency-key")
}
