//! `#[rate_limit]`: a limit on a function.
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

mod arguments;
mod body;
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
