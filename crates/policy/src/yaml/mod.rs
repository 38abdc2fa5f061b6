//! YAML as a tree that remembers where everything stood.
//!
//! Deserialising into types stops at the first mistake. A tree lets the reader go on, and report
//! all of them at once.

mod build;
mod node;
mod read;

pub(crate) use build::parse;
pub(crate) use node::{At, Entry, Node, Spot, Value};
pub(crate) use read::{Fields, entries, one_or_many, text, unexpected};
