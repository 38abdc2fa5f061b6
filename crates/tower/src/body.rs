//! The response body of a limited service.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The inner service's body, or that of a denial.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        kind: ResponseBodyKind<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = KindProjection]
    enum ResponseBodyKind<B> {
        Inner { #[pin] body: B },
        Denial { text: Option<Bytes> },
    }
}

impl<B> ResponseBody<B> {
    pub(crate) const fn inner(body: B) -> Self {
        Self { kind: ResponseBodyKind::Inner { body } }
    }

    /// The body of a denial. An empty text becomes no body at all, so that a gRPC denial has trailers
    /// only.
    pub(crate) fn denial(text: Bytes) -> Self {
        Self { kind: ResponseBodyKind::Denial { text: Some(text).filter(|text| !text.is_empty()) } }
    }
}

/// An empty body, which outer layers may need to create (those of `tower_http` for timeouts and CORS
/// do).
impl<B> Default for ResponseBody<B> {
    fn default() -> Self {
        Self { kind: ResponseBodyKind::Denial { text: None } }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Inner { body } => body.poll_frame(context),
            KindProjection::Denial { text } => {
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            ResponseBodyKind::Inner { body } => body.is_end_stream(),
            ResponseBodyKind::Denial { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            ResponseBodyKind::Inner { body } => body.size_hint(),
            ResponseBodyKind::Denial { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
        }
    }
}
