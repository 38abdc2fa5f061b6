//! Whose call it is.

use std::sync::OnceLock;

use tidegate_policy::{Key, OwnedKey};

use super::AlreadyInUse;
use crate::KeyResolver;

/// Whom a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// The user on whose behalf the call is made.
    User,
    /// The address that it came from.
    Ip,
}

/// A call that is about to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Call {
    /// The name of the limit.
    pub name: &'static str,
    /// What the limit wants to know.
    pub scope: Scope,
}

/// Says how this process finds out who calls, for limits with `scope = user` or `scope = ip`. Once,
/// before the first call of any of them.
///
/// A resolver that finds nobody (`None`) exempts the call. As long as there is no resolver, all
/// calls share one counter: forgetting it closes a door rather than opening one.
///
/// ```
/// use tidegate::attribute::{self, Call, Scope};
/// use tidegate::{Denied, rate_limit};
///
/// tokio::task_local! {
///     static USER: u64;
/// }
///
/// #[rate_limit(name = "exports", quota = "1/hour", scope = user)]
/// async fn export() -> Result<(), Denied> {
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// attribute::resolve_with(|call: &Call| match call.scope {
///     Scope::User => USER.try_with(|user| *user).ok(),
///     _ => None,
/// })?;
///
/// assert!(USER.scope(7, export()).await.is_ok());
/// assert!(USER.scope(7, export()).await.is_err());
/// assert!(USER.scope(8, export()).await.is_ok());
/// # Ok(())
/// # }
/// ```
pub fn resolve_with<R: KeyResolver<Call> + 'static>(resolver: R) -> Result<(), AlreadyInUse> {
    let erased: Resolver = Box::new(move |call| Some(OwnedKey::of(&resolver.resolve(call)?)));
    RESOLVER.set(erased).map_err(|_| AlreadyInUse)
}

/// The key of a call. The attribute writes this.
#[doc(hidden)]
pub fn resolve(scope: Scope, name: &'static str) -> Option<impl Key + Send + Sync> {
    match RESOLVER.get() {
        Some(resolve) => resolve(&Call { name, scope }),
        None => Some(OwnedKey::default()),
    }
}

type Resolver = Box<dyn Fn(&Call) -> Option<OwnedKey> + Send + Sync>;

static RESOLVER: OnceLock<Resolver> = OnceLock::new();
