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
//! // What the second limit counted is what happened.
//! assert!(Mailer.send("carol", "bob").is_ok());
//! assert_eq!(Mailer.send("dave", "bob").unwrap_err().name(), "all mails");
//! ```

mod arguments;
mod expand;
mod key;

use proc_macro::TokenStream;
use syn::{ItemFn, parse_macro_input};

use crate::arguments::Arguments;

/// Limits how often a function is called, by whom.
///
/// ```
/// # use tidegate::{Denied, rate_limit};
/// #[rate_limit(
///     name = "search",
///     quota = "100/minute",          // or ["5/second", "100/minute"]
///     key = |tenant| tenant,         // over the function's arguments; scope = user | ip | global
///     on_denied = error,             // or wait, in line
///     fail = local,                  // or open, closed: when the store does not answer
/// )]
/// async fn search(tenant: u64, text: &str) -> Result<Vec<String>, Denied> {
///     Ok(vec![text.to_owned()])
/// }
/// ```
///
/// Works on async and other functions and on methods, and may be repeated. The function returns a
/// `Result` whose error can be made from a `tidegate::Denied`. `limiter = &self.limiter` asks that
/// one instead of this process's. The module `tidegate::attribute` has the whole story.
#[proc_macro_attribute]
pub fn rate_limit(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = parse_macro_input!(arguments as Arguments);
    let function = parse_macro_input!(item as ItemFn);
    expand::expand(arguments, function).unwrap_or_else(syn::Error::into_compile_error).into()
}
