//! JSON strings that borrow from the body unless they contain escapes.

use std::borrow::{Borrow, Cow};
use std::ops::Deref;

use serde::Deserialize;

/// A JSON string: borrowed from the body, unless escapes had to be resolved.
///
/// A plain `Cow` inside an `Option` or a map would always be copied.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(transparent)]
pub struct JsonText<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl Deref for JsonText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for JsonText<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}
