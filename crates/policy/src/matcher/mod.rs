//! Which policies apply to a request.

mod condition;
mod glob;
mod index;
mod pattern;

pub(crate) use condition::{Condition, Mismatch};
pub(crate) use glob::Glob;
pub(crate) use index::Index;
pub(crate) use pattern::Pattern;
