//! `#[rate_limit]`: a limit on a function. `#[derive(Key)]`: a type that callers are counted by.
//!
//! Use it as `tidegate::rate_limit`, with tidegate's feature `macros`; the generated code refers to
//! that crate. `tidegate::attribute` explains every argument.
//!
//! ```
//! use tidegate::{Denied, rate_limit};
//!
//! struct Mailer;
//!
//! impl Mailer {
//!     #[rate_limit(name = "mails", quota = ["2/minute", "100/day"], key = |from| from)]
//!     #[rate_limit(name = "all mails", quota = "3/minute")]
//!     fn send(&self, from: &str, to: &str) -> Result<String, Denied> {
//!         Ok(format!("{from} writes to {to}"))
//!     }
//! }
//!
//! assert!(Mailer.send("alice", "bob").is_ok());
//! assert!(Mailer.send("alice", "bob").is_ok());
//! let denied = Mailer.send("alice", "bob").unwrap_err();
//! assert_eq!(denied.name(), "mails");
//! // The second limit counted only the two calls that happened.
//! assert!(Mailer.send("carol", "bob").is_ok());
//! assert_eq!(Mailer.send("dave", "bob").unwrap_err().name(), "all mails");
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod arguments;
mod body;
mod derive_key;
mod expand;
mod key;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Error, ItemFn, Result, TraitItemFn, parse2};

/// Limits how often a function is called, in total or per caller.
///
/// ```
/// # use tidegate::{Denied, rate_limit};
/// #[rate_limit(
///     name = "search",
///     quota = "100/minute",          // or ["5/second", "100/minute"]
///     key = |tenant| tenant,         // over the function's arguments; scope = user | ip | global
///     cost = |text| text.len(),      // over the function's arguments, or a number; 1 by default
///     on_denied = error,             // or wait, in a queue
///     fail = local,                  // or open, closed: when the store does not answer
/// )]
/// async fn search(tenant: u64, text: &str) -> Result<Vec<String>, Denied> {
///     Ok(vec![text.to_owned()])
/// }
/// ```
///
/// Works on async and other functions and on methods, also of `#[async_trait]`, and can be repeated. The
/// function returns a `Result` whose error can be made from a `tidegate::Denied`.
/// `limiter = &self.limiter` uses that limiter instead of this process's. The module `tidegate::attribute`
/// explains all of it.
///
/// # Whom it counts
///
/// Without a `key`, all calls together. A `key` is an expression over the arguments that it names, which it sees by
/// reference; `self` is one of them:
///
/// ```
/// # use tidegate::{Denied, rate_limit};
/// struct Shop { tenant: u64 }
///
/// impl Shop {
///     #[rate_limit(name = "orders", quota = "2/minute", key = |self, user| (self.tenant, user))]
///     async fn order(&self, user: &str, what: &str) -> Result<String, Denied> {
///         Ok(format!("{what} for {user}"))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let shop = Shop { tenant: 7 };
/// assert!(shop.order("alice", "tea").await.is_ok());
/// assert!(shop.order("alice", "tea").await.is_ok());
/// assert!(shop.order("alice", "tea").await.is_err());
/// assert!(shop.order("bob", "tea").await.is_ok());
/// # }
/// ```
///
/// # What a call costs
///
/// One unit, or what `cost` says: a number, or an expression over the arguments. A call whose cost is more than the
/// quota holds is always denied.
///
/// ```
/// # use tidegate::{Denied, rate_limit};
/// #[rate_limit(name = "imports", quota = "1000/hour", cost = |rows| rows.len())]
/// fn import(rows: &[u32]) -> Result<usize, Denied> {
///     Ok(rows.len())
/// }
///
/// assert!(import(&[0; 900]).is_ok());
/// assert_eq!(import(&[0; 200]).unwrap_err().decision().unwrap().remaining(), Some(100));
/// assert!(import(&[0; 100]).is_ok());
/// ```
///
/// # What a denied call does
///
/// It returns an error that is made from a `tidegate::Denied`. With `on_denied = wait` it waits for its turn, first
/// come, first served, and returns an error only when that takes too long:
///
/// ```
/// # use tidegate::{Denied, rate_limit};
/// #[rate_limit(name = "calls", quota = "100/second burst 1", on_denied = wait)]
/// async fn call_fragile_service() -> Result<(), Denied> {
///     Ok(())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Denied> {
/// for _ in 0..3 {
///     call_fragile_service().await?; // every ten milliseconds, and never sooner
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Several limits
///
/// The attribute can be repeated. Limits are checked from top to bottom; if a later one denies, the earlier ones
/// get their units back, so that a call that did not happen costs nothing.
///
/// # A limiter of the program
///
/// `limiter = ...` is any expression for a `tidegate::RateLimiter`, evaluated with each call. It has its own quota,
/// its own store and its own behaviour without the store:
///
/// ```
/// # use tidegate::{BuildError, Denied, Limiter, rate_limit};
/// struct Mailer { limiter: Limiter }
///
/// impl Mailer {
///     #[rate_limit(limiter = self.limiter, key = |to| to)]
///     fn send(&self, to: &str) -> Result<(), Denied> {
///         Ok(())
///     }
/// }
///
/// let mailer = Mailer { limiter: Limiter::builder().limit("1/day").build()? };
/// assert!(mailer.send("alice").is_ok());
/// assert!(mailer.send("alice").is_err());
/// # Ok::<(), BuildError>(())
/// ```
///
/// # Mistakes
///
/// Quotas, names of arguments and return types are checked when the program is compiled:
///
/// ```compile_fail
/// # use tidegate::{Denied, rate_limit};
/// #[rate_limit(name = "a", quota = "5/minit")] // unknown unit "minit"; expected ms, s, m, h or d
/// fn limited() -> Result<(), Denied> {
///     Ok(())
/// }
/// ```
///
/// # Functions that return futures
///
/// A function that is not async but ends with `async move { ... }`, or with the `Box::pin` of that, is
/// checked when its future first runs, with the arguments as its signature names them:
///
/// ```
/// # use tidegate::{Denied, rate_limit};
/// #[rate_limit(name = "reports", quota = "1/day", key = |user| user)]
/// fn report(user: u64) -> impl Future<Output = Result<u64, Denied>> + Send {
///     async move { Ok(user) }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert!(report(7).await.is_ok());
/// assert!(report(7).await.is_err());
/// # }
/// ```
#[proc_macro_attribute]
pub fn rate_limit(
    arguments: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    let item = TokenStream::from(item);
    let limited = limit(arguments.into(), item.clone());
    limited.unwrap_or_else(|error| beside(error, item)).into()
}

/// Makes a type a key: each field is a part, in the order of the fields. Of an enum, the name of the variant is the
/// first part.
///
/// ```
/// use tidegate::{Key, Limiter};
///
/// #[derive(Key)]
/// struct Caller {
///     tenant: u64,
///     user: String,
/// }
///
/// #[derive(Key)]
/// enum Login {
///     User(String),
///     Address(std::net::IpAddr),
/// }
///
/// let limiter = Limiter::builder().limit("1/minute").build()?;
/// let caller = Caller { tenant: 7, user: "alice".to_owned() };
/// assert!(limiter.check_now(&caller).is_allowed());
/// // The same key as a tuple of its fields.
/// assert!(!limiter.check_now(&(7_u64, "alice")).is_allowed());
/// assert!(limiter.check_now(&Login::User("alice".to_owned())).is_allowed());
/// # Ok::<(), tidegate::BuildError>(())
/// ```
///
/// Every field has to be a key itself. The order of the fields and the names of variants are part of the key: to
/// change them is to begin with new counters.
#[proc_macro_derive(Key)]
pub fn derive_key(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let expanded = parse2(item.into()).and_then(derive_key::expand);
    expanded.unwrap_or_else(Error::into_compile_error).into()
}

fn limit(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let function = function(item)?;
    expand::expand(parse2(arguments)?, function)
}

fn function(item: TokenStream) -> Result<ItemFn> {
    parse2(item.clone()).map_err(|error| match parse2::<TraitItemFn>(item) {
        Ok(method) => Error::new(method.sig.ident.span(), NO_BODY),
        // The compiler has already reported errors within a function.
        Err(_) => Error::new(error.span(), "expected a function"),
    })
}

/// The error together with the unchanged item: without the item, its callers would have errors too. Unused
/// warnings are off, because some arguments may be used by the key only.
fn beside(error: Error, item: TokenStream) -> TokenStream {
    let error = error.into_compile_error();
    let Ok(mut function) = parse2::<ItemFn>(item.clone()) else { return quote!(#error #item) };
    // The function's other limits would report the same error again.
    expand::take_siblings(&mut function.attrs);
    let function = function.into_token_stream();
    quote!(#error #[allow(unused)] #function)
}

const NO_BODY: &str =
    "a method without a body cannot be limited; expected #[rate_limit] on its implementations";
