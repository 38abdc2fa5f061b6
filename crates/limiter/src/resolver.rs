//! Finds the key of the thing that is limited.

use tidegate_core::Cost;
use tidegate_policy::Key;

use crate::{Decision, DecisionSource, RateLimiter};

/// Finds the key of something that is about to happen: a request, a call, a message.
///
/// Closures are resolvers. `None` means that the limit does not apply.
///
/// ```
/// use tidegate::{KeyResolver, Limiter, ResolvingLimiter};
///
/// struct Mail { from: String, tenant: Option<u64> }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::BuildError> {
/// let limiter = Limiter::builder().limit("1/day").build()?;
/// let mails = ResolvingLimiter::new(limiter, |mail: &Mail| Some((mail.tenant?, mail.from.clone())));
///
/// let mail = Mail { from: "alice".to_owned(), tenant: Some(7) };
/// assert!(mails.check(&mail).await.is_allowed());
/// assert!(!mails.check(&mail).await.is_allowed());
///
/// let internal = Mail { tenant: None, ..mail };
/// assert!(mails.check(&internal).await.is_allowed());
/// # Ok(())
/// # }
/// ```
pub trait KeyResolver<T: ?Sized>: Send + Sync {
    /// The type of the key.
    type Key: Key + Send + Sync;

    /// The key of `subject`, if the limit applies to it.
    fn resolve(&self, subject: &T) -> Option<Self::Key>;
}

impl<T, K, F> KeyResolver<T> for F
where
    T: ?Sized,
    K: Key + Send + Sync,
    F: Fn(&T) -> Option<K> + Send + Sync,
{
    type Key = K;

    fn resolve(&self, subject: &T) -> Option<K> {
        self(subject)
    }
}

/// A limiter with a resolver that finds the keys.
#[derive(Clone, Debug)]
pub struct ResolvingLimiter<L, R> {
    limiter: L,
    resolver: R,
}

impl<L: RateLimiter, R> ResolvingLimiter<L, R> {
    /// Joins a limiter and a resolver.
    pub const fn new<T: ?Sized>(limiter: L, resolver: R) -> Self
    where
        R: KeyResolver<T>,
    {
        Self { limiter, resolver }
    }

    /// May `subject` happen now?
    pub async fn check<T: Sync + ?Sized>(&self, subject: &T) -> Decision
    where
        R: KeyResolver<T>,
    {
        match self.resolver.resolve(subject) {
            Some(key) => self.limiter.decide(&key, Cost::ONE).await,
            None => Decision::without_verdicts(true, DecisionSource::None),
        }
    }
}
