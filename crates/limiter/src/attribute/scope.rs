//! Resolves the caller of a limited function, for `scope = user` and `scope = ip`.

use std::sync::OnceLock;

use tidegate_policy::{IpAddress, Key, OwnedKey};

use super::LateSetupError;
use crate::KeyResolver;

/// What a limit counts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FunctionScope {
    /// The user on whose behalf the call is made.
    User,
    /// The address that the call came from.
    Ip,
}

/// A call that is about to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FunctionCall {
    /// The name of the limit.
    pub name: &'static str,
    /// The scope that the limit counts by.
    pub scope: FunctionScope,
}

/// Sets how this process finds the caller, for limits with `scope = user` or `scope = ip`. Call it once,
/// before the first call of a limited function.
///
/// If the resolver returns `None`, the call is not limited. Without a resolver, all calls share one
/// counter: a forgotten resolver limits too much rather than too little.
///
/// With `scope = ip`, an address counts as an [`IpAddress`], whether it is an `IpAddr` or text: all
/// addresses of an IPv6 /64 network are one caller. A resolver that knows both users and addresses returns
/// an [`OwnedKey`] of either.
///
/// ```
/// use tidegate::attribute::{self, FunctionCall, FunctionScope};
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
/// attribute::resolve_with(|call: &FunctionCall| match call.scope {
///     FunctionScope::User => USER.try_with(|user| *user).ok(),
///     _ => None,
/// })?;
///
/// assert!(USER.scope(7, export()).await.is_ok());
/// assert!(USER.scope(7, export()).await.is_err());
/// assert!(USER.scope(8, export()).await.is_ok());
/// # Ok(())
/// # }
/// ```
pub fn resolve_with<R: KeyResolver<FunctionCall> + 'static>(
    resolver: R,
) -> Result<(), LateSetupError> {
    let erased: FunctionResolver = Box::new(move |call| {
        let found = resolver.resolve(call)?;
        let (key, text) = (OwnedKey::of(&found), text_of(&found));
        Some(if call.scope == FunctionScope::Ip {
            by_address(key, text)
        } else {
            FunctionKey { key, text }
        })
    });
    RESOLVER.set(erased).map_err(|_| LateSetupError)
}

/// The key of a call. Used by the code that the attribute generates.
#[doc(hidden)]
pub fn resolve(scope: FunctionScope, name: &'static str) -> Option<impl Key + Send + Sync> {
    match RESOLVER.get() {
        Some(resolve) => resolve(&FunctionCall { name, scope }),
        None => Some(FunctionKey::default()),
    }
}

/// A key that is an address in text form counts as that address: one address has many text forms.
fn by_address(key: OwnedKey, text: OwnedKey) -> FunctionKey {
    let mut parts = 0;
    key.each_part(|_| parts += 1);
    match IpAddress::read(key.as_bytes()).filter(|_| parts == 1) {
        Some(address) => FunctionKey { key: OwnedKey::of(&address), text: text_of(&address) },
        None => FunctionKey { key, text },
    }
}

type FunctionResolver = Box<dyn Fn(&FunctionCall) -> Option<FunctionKey> + Send + Sync>;

/// A key, and its readable form for stores that name keys.
#[derive(Clone, Debug, Default, PartialEq)]
struct FunctionKey {
    key: OwnedKey,
    text: OwnedKey,
}

impl Key for FunctionKey {
    fn each_part(&self, part: impl FnMut(&[u8])) {
        self.key.each_part(part);
    }

    fn each_text(&self, part: impl FnMut(&[u8])) {
        self.text.each_part(part);
    }
}

fn text_of<K: Key + ?Sized>(key: &K) -> OwnedKey {
    let mut text = OwnedKey::default();
    text.push_text(key);
    text
}

static RESOLVER: OnceLock<FunctionResolver> = OnceLock::new();

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tidegate_policy::key_as_text;

    use super::*;

    fn resolved<K: Key + ?Sized>(key: &K) -> FunctionKey {
        by_address(OwnedKey::of(key), text_of(key))
    }

    #[test]
    fn an_address_is_one_key_in_whatever_form_it_comes() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let network = resolved(&ip("2001:db8::1"));
        assert_eq!(resolved(&ip("2001:db8::2")), network);
        assert_eq!(resolved("2001:db8::3"), network);
        assert_eq!(key_as_text(&network), "2001:db8::/64");
        assert_eq!(resolved("::ffff:1.2.3.4"), resolved(&ip("1.2.3.4")));
        // Neither of these is an address.
        assert_eq!(resolved("a tunnel").key, OwnedKey::of("a tunnel"));
        assert_eq!(resolved(&("1", ".2.3.4")).key, OwnedKey::of(&("1", ".2.3.4")));
    }
}
