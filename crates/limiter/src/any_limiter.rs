//! A limiter whose type is chosen when the program runs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::{Cost, Fingerprint};
use tidegate_policy::{Key, OwnedKey};

use crate::{Decision, RateLimiter};

/// Any [`RateLimiter`] behind one type: for a field of a struct, a list of limiters, or a double in tests.
///
/// Clones are the same limiter.
///
/// ```
/// use tidegate::{AnyLimiter, Cost, Decision, Key, Limiter, RateLimiter};
///
/// /// For tests of code that is limited.
/// struct Unlimited;
///
/// impl RateLimiter for Unlimited {
///     async fn decide<K: Key + Sync + ?Sized>(&self, _: &K, _: Cost) -> Decision {
///         Decision::allow()
///     }
/// }
///
/// struct Mailer { limiter: AnyLimiter }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::BuildError> {
/// for limiter in [
///     AnyLimiter::new(Unlimited),
///     AnyLimiter::new(Limiter::builder().limit("5/day").build()?),
/// ] {
///     let mailer = Mailer { limiter };
///     assert!(mailer.limiter.decide("bob", Cost::ONE).await.is_allowed());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnyLimiter(Arc<dyn ErasedLimiter>);

impl AnyLimiter {
    /// A limiter of any type, as this type.
    pub fn new<L: RateLimiter + 'static>(limiter: L) -> Self {
        Self(Arc::new(limiter))
    }
}

impl fmt::Debug for AnyLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyLimiter")
    }
}

impl RateLimiter for AnyLimiter {
    async fn decide<K: Key + Sync + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        self.0.decide(&ErasedKey::of(key), cost).await
    }

    fn try_decide<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Option<Decision> {
        self.0.try_decide(&ErasedKey::of(key), cost)
    }

    async fn give_back<K: Key + Sync + ?Sized>(&self, key: &K, cost: Cost) {
        self.0.give_back(&ErasedKey::of(key), cost).await;
    }
}

/// A key of any type, with all that a limiter may ask of it.
struct ErasedKey {
    key: OwnedKey,
    /// Its readable form, for stores that name keys.
    text: OwnedKey,
    known: Option<Fingerprint>,
}

impl ErasedKey {
    fn of<K: Key + ?Sized>(key: &K) -> Self {
        let mut text = OwnedKey::default();
        text.push_text(key);
        Self { key: OwnedKey::of(key), text, known: key.known() }
    }
}

impl Key for ErasedKey {
    fn each_part(&self, part: impl FnMut(&[u8])) {
        self.key.each_part(part);
    }

    fn known(&self) -> Option<Fingerprint> {
        self.known
    }

    fn each_text(&self, part: impl FnMut(&[u8])) {
        self.text.each_part(part);
    }
}

type LimiterFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A dyn-compatible [`RateLimiter`].
trait ErasedLimiter: Send + Sync {
    fn decide<'a>(&'a self, key: &'a ErasedKey, cost: Cost) -> LimiterFuture<'a, Decision>;
    fn try_decide(&self, key: &ErasedKey, cost: Cost) -> Option<Decision>;
    fn give_back<'a>(&'a self, key: &'a ErasedKey, cost: Cost) -> LimiterFuture<'a, ()>;
}

impl<L: RateLimiter> ErasedLimiter for L {
    fn decide<'a>(&'a self, key: &'a ErasedKey, cost: Cost) -> LimiterFuture<'a, Decision> {
        Box::pin(RateLimiter::decide(self, key, cost))
    }

    fn try_decide(&self, key: &ErasedKey, cost: Cost) -> Option<Decision> {
        RateLimiter::try_decide(self, key, cost)
    }

    fn give_back<'a>(&'a self, key: &'a ErasedKey, cost: Cost) -> LimiterFuture<'a, ()> {
        Box::pin(RateLimiter::give_back(self, key, cost))
    }
}

#[cfg(test)]
mod tests {
    // Not the erased trait, whose methods have the same names.
    use super::{AnyLimiter, Arc, Cost};
    use crate::{Limiter, RateLimiter};

    #[tokio::test]
    async fn a_key_is_the_same_key_behind_it() {
        let limiter = Arc::new(Limiter::builder().limit("3/day").build().unwrap());
        let any = AnyLimiter::new(Arc::clone(&limiter));
        assert!(any.decide(&("tenant", 7_u64), Cost::ONE).await.is_allowed());
        assert!(any.try_decide(&("tenant", 7_u64), Cost::ONE).unwrap().is_allowed());
        assert_eq!(limiter.peek_now(&("tenant", 7_u64)).remaining(), Some(1));
        any.give_back(&("tenant", 7_u64), Cost::from(2)).await;
        assert_eq!(limiter.peek_now(&("tenant", 7_u64)).remaining(), Some(3));
        let print = limiter.policy().fingerprint(&("tenant", 7_u64));
        assert!(any.decide(&print, Cost::ONE).await.is_allowed());
        assert_eq!(limiter.peek_now(&("tenant", 7_u64)).remaining(), Some(2));
    }
}
