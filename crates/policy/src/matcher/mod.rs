//! Which policies a request is about.

mod condition;
mod glob;
mod index;
mod pattern;

pub(crate) use condition::{Condition, Mismatch};
pub(crate) use glob::Glob;
pub(crate) use index::Index;
pub(crate) use pattern::Pattern;
