//! The trait of everything that decides, for code that works with any limiter.

use std::future::Future;

use tidegate_core::Cost;
use tidegate_policy::Key;
use tidegate_store::Store;

use crate::{Decision, Limiter};

/// Anything that decides: a [`Limiter`], or your own implementation.
///
/// ```
/// use tidegate::{Cost, Decision, Key, Limiter, RateLimiter};
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
/// async fn send_mail(limiter: &impl RateLimiter, to: &str) -> bool {
///     limiter.decide(to, Cost::ONE).await.is_allowed()
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::BuildError> {
/// assert!(send_mail(&Unlimited, "bob").await);
/// assert!(send_mail(&Limiter::builder().limit("5/day").build()?, "bob").await);
/// # Ok(())
/// # }
/// ```
pub trait RateLimiter: Send + Sync {
    /// May `key` do something that costs this much?
    fn decide<K: Key + Sync + ?Sized>(
        &self,
        key: &K,
        cost: Cost,
    ) -> impl Future<Output = Decision> + Send;

    /// [`decide`](RateLimiter::decide) for callers that cannot wait. Returns `None`, and takes nothing,
    /// if the decision needs waiting.
    fn try_decide<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Option<Decision> {
        let _ = (key, cost);
        None
    }

    /// Gives back what a decision took, because it was not used after all. By default, nothing is given
    /// back.
    fn give_back<K: Key + Sync + ?Sized>(
        &self,
        key: &K,
        cost: Cost,
    ) -> impl Future<Output = ()> + Send {
        let _ = (key, cost);
        std::future::ready(())
    }
}

impl<S: Store> RateLimiter for Limiter<S> {
    async fn decide<K: Key + Sync + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
        self.check_n(key, cost).await
    }

    fn try_decide<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Option<Decision> {
        self.try_check_n(key, cost)
    }

    async fn give_back<K: Key + Sync + ?Sized>(&self, key: &K, cost: Cost) {
        // If the store does not answer, the units stay taken: too strict, but never too lenient.
        let _ = self.refund(key, cost).await;
    }
}

macro_rules! lent_limiters {
    ($($type:ty),*) => {$(
        impl<L: RateLimiter + ?Sized> RateLimiter for $type {
            async fn decide<K: Key + Sync + ?Sized>(&self, key: &K, cost: Cost) -> Decision {
                (**self).decide(key, cost).await
            }

            fn try_decide<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> Option<Decision> {
                (**self).try_decide(key, cost)
            }

            async fn give_back<K: Key + Sync + ?Sized>(&self, key: &K, cost: Cost) {
                (**self).give_back(key, cost).await;
            }
        }
    )*};
}

lent_limiters!(&L, std::sync::Arc<L>);
