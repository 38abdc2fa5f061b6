//! Events that a client reports about its waits and retries.

use std::time::Duration;

use http::StatusCode;

/// Receives the events of a polite client, for logs and metrics. Closures are observers.
///
/// ```
/// use tidegate::client::{ClientEvent, PoliteLayer};
///
/// let layer = PoliteLayer::new().observer(|event: &ClientEvent| {
///     if let ClientEvent::Retrying { wait, attempt } = event {
///         println!("attempt {attempt} in {wait:?}");
///     }
/// });
/// ```
pub trait ClientObserver: Send + Sync {
    /// Handles an event. Runs within the call, so it should not take long.
    fn observe(&self, event: &ClientEvent);
}

impl<F: Fn(&ClientEvent) + Send + Sync> ClientObserver for F {
    fn observe(&self, event: &ClientEvent) {
        self(event);
    }
}

/// What happened to a call.
///
/// A call that is refused once and then succeeds reports `Refused` and `Retrying`. A call that is passed
/// through at once reports nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientEvent {
    /// The call waits before it is sent, so that it is not refused.
    Paced {
        /// How long it waits.
        wait: Duration,
    },
    /// The server has refused the call.
    Refused {
        /// The status of the refusal.
        status: StatusCode,
        /// When to retry, if the server says so.
        retry_after: Option<Duration>,
        /// Which attempt it was, from 1.
        attempt: u32,
    },
    /// The call will be sent again.
    Retrying {
        /// The wait before that.
        wait: Duration,
        /// Which attempt it will be.
        attempt: u32,
    },
    /// The call is not sent again: the refusal is passed on. If the server requested a longer wait from
    /// another call while this one waited for its retry, the result is
    /// [`PoliteError::TooEarly`](crate::PoliteError::TooEarly) instead.
    GaveUp {
        /// After which attempt.
        attempt: u32,
        /// Why.
        why: GiveUpReason,
    },
    /// The call is refused locally, because the server has refused most calls recently.
    Throttled,
}

/// Why a refused call is not sent again.
///
/// It says which setting of the layer to look at: [`repeat_if`](crate::PoliteLayer::repeat_if) and
/// [`clone_bodies`](crate::PoliteLayer::clone_bodies), [`max_retries`](crate::PoliteLayer::max_retries),
/// [`max_wait`](crate::PoliteLayer::max_wait), or [`budget`](crate::PoliteLayer::budget).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GiveUpReason {
    /// The request is not safe to repeat, or its body is gone.
    NotRepeatable,
    /// The request has been sent as often as allowed.
    Attempts,
    /// The retry would have to wait for longer than allowed.
    Wait,
    /// There are no retries left in the [`RetryBudget`](crate::RetryBudget).
    Budget,
}
