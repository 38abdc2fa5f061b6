//! The error of a limited function whose call was denied.

#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "tonic")]
mod tonic;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::{BuildError, Decision, DecisionReason, WaitError};

/// A call of a limited function that did not happen.
///
/// A function that carries `#[rate_limit]` returns a `Result` whose error can be made from this:
/// this type itself, `Box<dyn Error>`, or one of your own.
///
/// ```
/// use tidegate::{Denied, rate_limit};
///
/// #[derive(Debug)]
/// enum MailError { TooMany(Denied), NoSuchUser }
///
/// impl From<Denied> for MailError {
///     fn from(denied: Denied) -> Self {
///         Self::TooMany(denied)
///     }
/// }
///
/// #[rate_limit(name = "resets", quota = "1/hour", key = |user| user)]
/// fn reset_password(user: u64) -> Result<(), MailError> {
///     if user == 0 { Err(MailError::NoSuchUser) } else { Ok(()) }
/// }
///
/// assert!(reset_password(7).is_ok());
/// assert!(matches!(reset_password(7), Err(MailError::TooMany(denied)) if denied.name() == "resets"));
/// ```
#[derive(Clone, Debug)]
pub struct Denied(Box<DeniedCall>);

/// The limit that denied a call, and why.
#[derive(Clone, Debug)]
struct DeniedCall {
    name: &'static str,
    why: DenialCause,
}

/// Why a call was denied.
#[derive(Clone, Debug)]
enum DenialCause {
    Decision(Decision),
    NotReady(WaitError),
    /// Does not happen: the attribute checks its arguments when the program is compiled.
    NoLimiter(BuildError),
}

impl Denied {
    fn new(name: &'static str, why: DenialCause) -> Self {
        Self(Box::new(DeniedCall { name, why }))
    }

    pub(super) fn unless_allowed(name: &'static str, decision: Decision) -> Result<(), Self> {
        if decision.is_allowed() {
            Ok(())
        } else {
            Err(Self::new(name, DenialCause::Decision(decision)))
        }
    }

    pub(super) fn not_ready(name: &'static str, not_ready: WaitError) -> Self {
        Self::new(name, DenialCause::NotReady(not_ready))
    }

    pub(super) fn no_limiter(name: &'static str, error: BuildError) -> Self {
        Self::new(name, DenialCause::NoLimiter(error))
    }

    /// The name of the limit that denied.
    pub const fn name(&self) -> &'static str {
        self.0.name
    }

    /// The decision, unless the call gave up waiting.
    pub const fn decision(&self) -> Option<&Decision> {
        match &self.0.why {
            DenialCause::Decision(decision) => Some(decision),
            DenialCause::NotReady(_) | DenialCause::NoLimiter(_) => None,
        }
    }

    /// Why the call stopped waiting, if the limit has `on_denied = wait`.
    pub const fn why_not_ready(&self) -> Option<&WaitError> {
        match &self.0.why {
            DenialCause::NotReady(not_ready) => Some(not_ready),
            DenialCause::Decision(_) | DenialCause::NoLimiter(_) => None,
        }
    }

    /// When to try again; `None` if that is unknown, or does not help.
    pub fn retry_after(&self) -> Option<Duration> {
        match &self.0.why {
            DenialCause::Decision(decision) => decision.retry_after(),
            DenialCause::NotReady(WaitError::Later(wait)) => Some(*wait),
            DenialCause::NotReady(_) | DenialCause::NoLimiter(_) => None,
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} denied this call: ", self.name())?;
        match &self.0.why {
            DenialCause::Decision(decision) => match (decision.reason(), decision.retry_span()) {
                (DecisionReason::LimitExceeded, Some(wait)) => {
                    write!(f, "try again in {}", wait.roughly())
                }
                (reason, Some(wait)) => write!(f, "{reason}, try again in {}", wait.roughly()),
                (reason, None) => write!(f, "{reason}"),
            },
            DenialCause::NotReady(not_ready) => not_ready.fmt(f),
            DenialCause::NoLimiter(error) => error.fmt(f),
        }
    }
}

impl Error for Denied {}

/// The return types of a limited function: those that can be made from a denial.
///
/// `Option` and `()` are not among them, because they would hide the denial.
///
/// ```compile_fail,E0277
/// #[tidegate::rate_limit(name = "a", quota = "5/second")]
/// fn limited() -> Option<u64> { None }
/// ```
///
/// Nor is an error that cannot be made from a denial:
///
/// ```compile_fail,E0277
/// struct MyError;
///
/// #[tidegate::rate_limit(name = "a", quota = "5/second")]
/// fn limited() -> Result<(), MyError> { Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "a function with #[rate_limit] cannot return `{Self}`",
    label = "cannot hold a denial",
    note = "return a Result<_, E> where E: From<tidegate::Denied>"
)]
pub trait FromDenied {
    /// The denial, as the function returns it.
    fn from_denied(denied: Denied) -> Self;
}

impl<T, E: From<Denied>> FromDenied for Result<T, E> {
    fn from_denied(denied: Denied) -> Self {
        Err(denied.into())
    }
}
