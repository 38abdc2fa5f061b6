//! What a client reports about its waiting.

use std::time::Duration;

use http::StatusCode;

/// Hears what a polite client does: for logs and metrics. Closures are observers.
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
    /// Something has happened. Called from within the call, so it should not take long.
    fn observe(&self, event: &ClientEvent);
}

impl<F: Fn(&ClientEvent) + Send + Sync> ClientObserver for F {
    fn observe(&self, event: &ClientEvent) {
        self(event);
    }
}

/// What happened to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientEvent {
    /// It waits before it leaves, so that it is not refused.
    Paced {
        /// For how long.
        wait: Duration,
    },
    /// The server has refused it.
    Refused {
        /// How.
        status: StatusCode,
        /// When to come back, if the server says so.
        retry_after: Option<Duration>,
        /// Which attempt it was, from 1.
        attempt: u32,
    },
    /// It will be sent again.
    Retrying {
        /// After how long.
        wait: Duration,
        /// Which attempt it will be.
        attempt: u32,
    },
    /// It is not sent again: the refusal is passed on. If it has waited for a retry already, and others
    /// were told to wait for longer meanwhile, it is
    /// [`PoliteError::TooEarly`](crate::PoliteError::TooEarly).
    GaveUp {
        /// After which attempt.
        attempt: u32,
        /// Why.
        why: GiveUpReason,
    },
    /// It is refused locally, because the server has refused most recently.
    Throttled,
}

/// Why a refused call is not sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GiveUpReason {
    /// Sending it twice might do it twice, or its body is gone.
    NotRepeatable,
    /// It has been sent as often as allowed.
    Attempts,
    /// It would have to wait for longer than allowed.
    Wait,
    /// There are no retries left in the [`RetryBudget`](crate::RetryBudget).
    Budget,
}
