//! The events of a remote store: it is lost, and it is found again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Span;

/// A change in what a limiter knows about its store.
///
/// While a store is lost, the limiter's [`OnStoreError`](crate::OnStoreError) decides: by default, this instance
/// counts alone. A program that shares its limits should know. Without an
/// [observer](crate::LimiterBuilder::on_store_event), each event is one line on standard error, or an event of
/// `tracing` with that feature.
///
/// ```
/// use std::future::ready;
/// use std::sync::{Arc, Mutex};
/// use tidegate::{
///     Charge, Limiter, Promise, SettleResult, Span, Store, StoreError, StoreErrorKind, StoreEvent,
///     StoreProfile, Verdicts,
/// };
///
/// /// A store that nobody can reach.
/// struct FarAway;
///
/// impl Store for FarAway {
///     fn profile(&self) -> StoreProfile { StoreProfile::remote(*b"of this example!") }
///     fn settle<'a>(
///         &'a self,
///         _: &'a [Charge<'a>],
///         _: Option<Span>,
///         _: &'a mut Verdicts,
///     ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
///         let error = StoreError::new(StoreErrorKind::Unreachable, "connection refused");
///         Promise::Later(ready(Err(error)))
///     }
///     async fn refund(&self, _: &Charge<'_>) -> Result<(), StoreError> { Ok(()) }
///     async fn reset(&self, _: &Charge<'_>) -> Result<(), StoreError> { Ok(()) }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::BuildError> {
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let events = Arc::clone(&seen);
/// let limiter = Limiter::builder()
///     .limit("100/minute")
///     .store(FarAway)
///     .on_store_event(move |event| events.lock().unwrap().push(event.to_string()))
///     .build()?;
///
/// for _ in 0..3 {
///     assert!(limiter.check("alice").await.is_allowed());
/// }
/// // One event, and not one for each request.
/// let seen = seen.lock().unwrap();
/// assert_eq!(seen.len(), 1);
/// assert!(seen[0].contains("connection refused"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreEvent {
    /// The store did not answer a decision. Later failures of the same outage are not reported.
    Lost {
        /// What happened, for people.
        problem: String,
    },
    /// The store answers again, and has done so for a few seconds.
    Found {
        /// How long the outage lasted, from its first failure to its last.
        after: Duration,
    },
}

impl fmt::Display for StoreEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { problem } => {
                write!(
                    f,
                    "the store does not answer, so this instance decides without it: {problem}"
                )
            }
            Self::Found { after } => {
                write!(f, "the store answers again, after {}", Span::from(*after).roughly())
            }
        }
    }
}

/// What to call with each event.
pub(crate) type StoreObserver = Arc<dyn Fn(&StoreEvent) + Send + Sync>;
