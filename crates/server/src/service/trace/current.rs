//! The current span: the span of the request that a thread is working on.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;

use super::TraceSpan;

thread_local! {
    static CURRENT: Cell<Option<Box<TraceSpan>>> = const { Cell::new(None) };
}

/// Answers a request within its span, if it has one. Requests take turns on a thread: the span is set
/// before each poll of this request, and removed after it.
pub async fn within<F: Future>(
    span: &mut Option<Box<TraceSpan>>,
    mut answering: Pin<&mut F>,
) -> F::Output {
    poll_fn(|cx| {
        let _guard = span.is_some().then(|| SpanGuard::begin(span));
        answering.as_mut().poll(cx)
    })
    .await
}

/// Changes the span of the current request, if it has one.
pub fn note<T>(change: impl FnOnce(&mut TraceSpan) -> T) -> Option<T> {
    let mut span = CURRENT.try_with(Cell::take).ok().flatten()?;
    let result = change(&mut span);
    let _ = CURRENT.try_with(|current| current.set(Some(span)));
    Some(result)
}

/// Makes a request's span the current one, until it is dropped, even by a panic.
struct SpanGuard<'s> {
    span: &'s mut Option<Box<TraceSpan>>,
    before: Option<Box<TraceSpan>>,
}

impl<'s> SpanGuard<'s> {
    fn begin(span: &'s mut Option<Box<TraceSpan>>) -> Self {
        let before = CURRENT.replace(span.take());
        Self { span, before }
    }
}

impl Drop for SpanGuard<'_> {
    fn drop(&mut self) {
        *self.span = CURRENT.try_with(|current| current.replace(self.before.take())).ok().flatten();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tidegate_wire::otlp::Value;
    use tokio::task::yield_now;

    use super::*;

    async fn noted(name: &'static str, number: u64) -> Box<TraceSpan> {
        let mut span = Some(TraceSpan::begin(name, 1, None));
        let noting = pin!(async {
            for _ in 0..3 {
                assert!(note(|span| span.number(name, number)).is_some());
                yield_now().await;
            }
        });
        within(&mut span, noting).await;
        span.unwrap()
    }

    #[tokio::test]
    async fn requests_that_take_turns_keep_their_spans() {
        let (one, two) = tokio::join!(noted("one", 1), noted("two", 2));
        for (span, number) in [(one, 1), (two, 2)] {
            let expected = vec![(&*span.name, Value::IntValue(number)); 3];
            let found: Vec<_> = span.attributes.iter().map(|(it, v)| (*it, v.clone())).collect();
            assert_eq!(found, expected);
        }
        assert!(note(|_| ()).is_none());
    }

    #[tokio::test]
    async fn a_request_without_a_span_says_nothing_and_one_that_panics_leaves_none_behind() {
        within(&mut None, pin!(async { assert!(note(|_| ()).is_none()) })).await;
        let panicking = tokio::spawn(async {
            let mut span = Some(TraceSpan::begin("a", 1, None));
            within(&mut span, pin!(async { panic!("as it should") })).await;
        });
        assert!(panicking.await.is_err());
        assert!(note(|_| ()).is_none());
    }
}
