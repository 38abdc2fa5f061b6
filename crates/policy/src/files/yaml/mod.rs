//! YAML as a tree that remembers the place of every value.
//!
//! Deserialising into types stops at the first mistake. A tree lets the reader continue, and report
//! all mistakes in one run.

mod builder;
mod fields;
mod node;

pub(crate) use builder::parse;
pub use fields::{YamlFields, entries, one_or_many, text, unexpected};
pub use node::{ByteRange, SourceValue, YamlEntry, YamlNode, YamlValue};
